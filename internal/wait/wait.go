// Package wait waits for a limited time.
package wait

import (
	"context"
	"errors"
	"time"

	"github.com/resource-tracker/rt/internal/recovery"
)

// For waits for d and returns true, or returns false as soon as ctx is done.
func For(ctx context.Context, d time.Duration) bool {
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

// AtMost returns the error of f, or ErrLate after the limit. A panic of f is an error, see recovery.Handle.
func AtMost(limit time.Duration, f func() error) error {
	ended := make(chan error, 1)
	go func() {
		defer recovery.Handle(func(err error) { ended <- err })
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
