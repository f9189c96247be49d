package spool

import (
	"bufio"
	"bytes"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// A frame has a limit, on both sides: what a writer writes a reader accepts.
func TestFrameLimits(t *testing.T) {
	head := []recordTable{{"run", []string{"node", "state", "command"}}, {"host", []string{"host_name"}}}
	w := newRecordWriter(io.Discard)
	if err := w.frame(make([]byte, maxSchema+1)); !errors.Is(err, errFrame) || w.frames != 0 {
		t.Error(err)
	}
	if err := w.frame(packTables(head)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a refused frame is not written
		if err := w.rows(0, &head[0], [][]driver.Value{{"n1", "ended", strings.Repeat("x", maxRun)}}); !errors.Is(err, errFrame) || !strings.Contains(err.Error(), "table run") {
			t.Error(err)
		}
	}
	if err := w.rows(0, &head[0], [][]driver.Value{{"n1", "ended", strings.Repeat("x", maxRun-100)}}); err != nil {
		t.Error(err)
	}
	for number, limit := range []int{maxSchema, maxRun, maxRun, maxFrame, maxFrame} {
		for _, size := range []int{limit, limit + 1} {
			in := &recordReader{r: bufio.NewReader(bytes.NewReader(binary.AppendUvarint(nil, uint64(size)))), frames: number}
			_, err := in.frame()
			if isRefused := err != nil && strings.Contains(err.Error(), "the limit is"); isRefused != (size > limit) {
				t.Errorf("frame %d of %d bytes: %v", number, size, err)
			}
		}
	}
}

// A run with more words than a record can have is not written, and the error says so.
func TestRunTooLargeForARecord(t *testing.T) {
	run := rt.Run{Identity: rt.Identity{Node: "n1", Start: time.UnixMilli(1)}, Ending: rt.Ending{State: rt.StateRunning}, Command: []string{strings.Repeat("x", maxRun)}}
	w, err := Create(t.TempDir(), run, rt.Host{}, Options{})
	if err == nil {
		err = w.End(run)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := Dump(t.Context(), io.Discard, r, nil); !errors.Is(err, errFrame) || !strings.Contains(err.Error(), r.Path()) {
		t.Error(err)
	}
}
