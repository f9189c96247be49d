package launch

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestPipe(t *testing.T) {
	r, w, err := newPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Minute)

	r.deadline = past
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an empty pipe after the deadline: %d bytes, %v", n, err)
	}
	if err := w.write([]byte("text"), past); err != nil {
		t.Errorf("a pipe that takes all after the deadline: %v", err)
	}
	text := make([]byte, 10)
	if n, err := r.Read(text); string(text[:n]) != "text" || err != nil {
		t.Errorf("a full pipe after the deadline: %q, %v", text[:n], err)
	}
	large := bytes.Repeat([]byte("x"), 1<<20)
	if err := w.write(large, past); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a pipe that is full after the deadline: %v", err)
	}
	written := make(chan error)
	go func() {
		err := w.write(large, future)
		w.Close()
		written <- err
	}()
	r.deadline = future
	all, err := io.ReadAll(r)
	if err != nil || len(all) <= len(large) || len(bytes.Trim(all, "x")) > 0 { // also what it took before
		t.Errorf("read %d bytes, %v", len(all), err)
	}
	if err := <-written; err != nil {
		t.Errorf("a pipe with a reader: %v", err)
	}
}

func TestPipeWithoutReader(t *testing.T) {
	r, w, err := newPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	r.Close() // does not close the next file with the number
	if err := w.write([]byte("text"), time.Now()); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("wrote to a pipe without a reader: %v", err)
	}
}
