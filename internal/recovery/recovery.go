// Package recovery keeps a program recording and delivering after a fault. The panic of one goroutine is an error, a
// function that does not return is left behind, and another attempt follows a pause.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Handle is deferred at the top of a goroutine. A panic ends that goroutine only:
// report receives it as an error with its stack.
func Handle(report func(error)) {
	if p := recover(); p != nil {
		report(fmt.Errorf("internal error, please report it: %v\n%s", p, debug.Stack()))
	}
}

// Pause waits for d and returns true, or returns false as soon as ctx is done.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// ErrLate means that a function of AtMost keeps running.
var ErrLate = errors.New("took too long")

// resume is the part of a limit in which a function ends after the whole machine has stopped for a time.
const resume = 100 * time.Millisecond

// AtMost returns the error of f, or ErrLate after the limit. A panic of f is an error, see Handle.
func AtMost(limit time.Duration, f func() error) error {
	ended := make(chan error, 1)
	go func() {
		defer Handle(func(err error) { ended <- err })
		ended <- f()
	}()
	last := min(resume, limit/2)
	for _, part := range [...]time.Duration{limit - last, last} {
		select {
		case err := <-ended:
			return err
		case <-time.After(part):
		}
	}
	return ErrLate
}
