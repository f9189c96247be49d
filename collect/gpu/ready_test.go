package gpu

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt"
)

// slowGPU answers at the nth reading.
type slowGPU struct {
	answer, reads int
	fault         error
	closed        bool
}

func (g *slowGPU) Close() error {
	g.closed = true
	return nil
}

func (g *slowGPU) Late() bool { return g.reads < g.answer }

func (g *slowGPU) Read(s *rt.Snapshot) error {
	g.reads++
	if g.Late() {
		return nil // as in the first 10 s
	}
	s.GPUs = []rt.GPUReading{{Name: "A2"}}
	return g.fault
}

func TestReadOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		source *slowGPU
		want   int // GPUs
		after  time.Duration
	}{
		"at once":         {&slowGPU{answer: 1}, 1, 0},
		"with a fault":    {&slowGPU{answer: 1, fault: errors.New("one fell off the bus")}, 1, 0},
		"once it is up":   {&slowGPU{answer: 5}, 1, time.Second},
		"when it is hung": {&slowGPU{answer: 1000}, 0, readyTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				got, err := ReadOnce(t.Context(), tc.source)
				if isHung := tc.after == readyTimeout; errors.Is(err, os.ErrDeadlineExceeded) != isHung {
					t.Error(err)
				}
				if took := time.Since(start); len(got) != tc.want || took != tc.after || !tc.source.closed {
					t.Errorf("%d GPUs after %v (closed: %t), want %d after %v", len(got), took, tc.source.closed, tc.want, tc.after)
				}
			})
		})
	}
}
