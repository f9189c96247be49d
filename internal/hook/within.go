package hook

import (
	"errors"
	"fmt"
	"time"
)

// errLate means that the limit of within has passed.
var errLate = errors.New("took too long")

// defect is a panic.
type defect struct{ value any }

func (d defect) Error() string { return fmt.Sprint("panic: ", d.value) }

// within returns the result of f, or errLate if that takes longer than the limit. f then
// keeps running, because nothing interrupts a call that waits for a dead file system. A
// panic of f becomes a defect, because slurmd drains the node of a hook that panics.
func within[T any](limit time.Duration, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = defect{p}
			}
			results <- r
		}()
		r.value, r.err = f()
	}()
	select {
	case r := <-results:
		return r.value, r.err
	case <-time.After(limit):
		var none T
		return none, errLate
	}
}
