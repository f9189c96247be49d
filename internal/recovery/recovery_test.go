package recovery

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestHandle(t *testing.T) {
	var reported []error
	report := func(err error) { reported = append(reported, err) }
	func() {
		defer Handle(report)
		panic("a hole in the map")
	}()
	if len(reported) != 1 {
		t.Fatalf("a panic is reported %d times, want once", len(reported))
	}
	text := reported[0].Error()
	if !strings.Contains(text, "a hole in the map") || !strings.Contains(text, "recovery_test.go") {
		t.Errorf("the report lacks the panic's value or place: %s", text)
	}
	func() { defer Handle(report) }()
	if len(reported) != 1 {
		t.Errorf("without a panic %v is reported", reported[1:])
	}
}

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
