package launch

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"
)

// A pipe takes the run after the deadline too, because exec alone can last so long. A tracker that does not read, or
// has ended, delays no Prolog.
func TestDescribeAfterTheDeadline(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	tr, past := &tracker{feed: w}, time.Now().Add(-time.Hour)
	err = os.ErrDeadlineExceeded
	for range 100 { // on a busy machine leastWait can pass before the first byte is written
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = tr.describe([]byte("text"), past)
		}
	}
	if err != nil {
		t.Fatalf("a pipe that takes all: %v", err)
	}
	text := make([]byte, 10)
	if n, err := r.Read(text); string(text[:n]) != "text" || err != nil {
		t.Errorf("the tracker reads %q, %v", text[:n], err)
	}
	large := bytes.Repeat([]byte("x"), 1<<20)
	if err := tr.describe(large, past); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a tracker that does not read: %v", err)
	}
	r.Close()
	if err := tr.describe(large, past); err != nil {
		t.Errorf("a tracker that has ended: %v", err)
	}
}
