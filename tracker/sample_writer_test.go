package tracker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/samples"
)

// writes keeps each write on its own.
type writes struct {
	list   []string
	fail   error
	closed bool
}

func (w *writes) Write(b []byte) (int, error) {
	if w.fail != nil {
		return 0, w.fail
	}
	w.list = append(w.list, string(b))
	return len(b), nil
}

func (w *writes) Close() error { w.closed = true; return nil }

// Section 12: a line is a write. All of them come, in their order.
func TestSampleWriterWritesLines(t *testing.T) {
	out := &writes{}
	o := NewSampleWriter(out, "x", func(err error) { t.Error(err) })
	var want []string
	reused := make([]byte, 0, 20)
	for i := range maxWaiting {
		reused = fmt.Appendf(reused[:0], "line %d\n", i)
		want = append(want, string(reused))
		o.Add(reused)
	}
	if err := o.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	if strings.Join(out.list, "|") != strings.Join(want, "|") || !out.closed {
		t.Errorf("%d lines, closed %v: %q", len(out.list), out.closed, out.list)
	}
}

func TestSampleWriterFailsOnce(t *testing.T) {
	broken := errors.New("the disk is full")
	var failures []error
	o := NewSampleWriter(&writes{fail: broken}, "x.csv", func(err error) { failures = append(failures, err) })
	for range 3 {
		o.Add([]byte("line\n"))
	}
	if err := o.Wait(context.Background()); err != nil {
		t.Error(err)
	}
	if len(failures) != 1 || !errors.Is(failures[0], broken) || !strings.Contains(failures[0].Error(), "x.csv") {
		t.Errorf("%v", failures)
	}
}

// A reader that stops reading blocks nothing. The number of missed samples is reported, and
// the next sample covers their time.
func TestSampleWriterWithAReaderThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		o := NewSampleWriter(w, "the pipe", func(err error) { t.Error(err) })
		e := &Samples{Out: o, CSV: true, Scope: rt.ScopeNode}
		put := func(sec int64) {
			s := snapshotAt(sec)
			s.Node.NetRxBytes.Set(uint64(sec) * 10)
			if err := e.Put(s); err != nil {
				t.Fatal(err)
			}
		}
		const late = 5
		for sec := range int64(maxWaiting + late) {
			put(100 + sec)
		}
		given, end := context.WithCancel(t.Context())
		end()
		synctest.Wait()

		var text strings.Builder
		header := make([]byte, 1000)
		n, err := r.Read(header) // there is room for one sample again
		if err != nil {
			t.Fatal(err)
		}
		text.Write(header[:n])
		if n, err = r.Read(header); err != nil {
			t.Fatal(err)
		}
		text.Write(header[:n])
		synctest.Wait()
		put(1000)
		// 600 lines are the header and 599 samples; of the 604 that were due, 5 are missing.
		if err := o.Wait(given); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d lines were not written to the pipe", 5+maxWaiting-1)) {
			t.Errorf("%v", err)
		}
		rest, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(rest)
		if err := o.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "5 lines") {
			t.Errorf("%v", err)
		}
		_, rows, err := samples.ReadCSV(strings.NewReader(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		var sum uint64
		for row, err := range rows {
			if err != nil {
				t.Fatal(err)
			}
			sum += row.Scalars.NetRecvBytes.Or(0)
		}
		if sum != 900*10 {
			t.Errorf("%d bytes in all rows, 9000 were received", sum)
		}
	})
}

// faulty is a destination that panics.
type faulty struct{}

func (faulty) Write([]byte) (int, error) { panic("nil, perhaps") }
func (faulty) Close() error              { return nil }

// Section 11: a panic becomes one error message, and Wait still returns.
func TestSampleWriterReportsAPanic(t *testing.T) {
	failed := make(chan error, 2)
	o := NewSampleWriter(faulty{}, "x", func(err error) { failed <- err })
	o.Add([]byte("a\n"))
	_ = o.Wait(t.Context()) // another test checks its error
	err := <-failed
	for _, part := range []string{"internal error", "nil, perhaps", "faulty.Write"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %q", part, err)
		}
	}
	if len(failed) != 0 {
		t.Errorf("and %d more errors", len(failed))
	}
}
