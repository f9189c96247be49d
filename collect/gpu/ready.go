package gpu

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/resource-tracker/rt"
)

const (
	readyTimeout = 10 * time.Second // NVIDIA's driver takes seconds to start if nothing keeps it loaded
	readyPause   = 250 * time.Millisecond
)

// Reader is the part of a Source that ReadOnce uses.
type Reader interface {
	Read(*rt.Snapshot) error
	Close() error
}

// ReadOnce reads the GPUs when their drivers answer, without those that do not within
// 10 s, and closes the source.
func ReadOnce(ctx context.Context, source Reader) []rt.GPUReading {
	defer source.Close() // nothing was written
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		var s rt.Snapshot
		err := source.Read(&s)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return s.GPUs
		}
		select {
		case <-ctx.Done():
			return s.GPUs
		case <-time.After(readyPause):
		}
	}
}
