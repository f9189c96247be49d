package wait

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := AtMost(time.Second, func() error { time.Sleep(time.Second - 1); return os.ErrClosed }); err != os.ErrClosed {
			t.Errorf("in time: %v", err)
		}
		if err := AtMost(time.Second, func() error { panic("oops") }); err == nil || !strings.Contains(err.Error(), "oops") {
			t.Errorf("panic: %v", err)
		}
		for _, limit := range []time.Duration{time.Second, time.Millisecond} {
			begin := time.Now()
			err := AtMost(limit, func() error { time.Sleep(time.Minute); panic("too late to matter") })
			if took := time.Since(begin); err != ErrLate || took != limit {
				t.Errorf("late: %v after %s", err, took)
			}
		}
		time.Sleep(time.Hour)
	})
}
