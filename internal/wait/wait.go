// Package wait waits for a time that a context can end.
package wait

import (
	"context"
	"time"
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
