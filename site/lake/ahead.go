package lake

import (
	"context"
	"errors"
	"runtime"

	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/site"
)

// maxAhead limits how many records are in memory at once.
const maxAhead = 8

// ahead decodes the records of the next runs at the same time, on the other processors.
type ahead map[string]chan decoded

// decoded is what Config.Decode returns.
type decoded struct {
	run *DecodedRun
	err error
}

// begin decodes the records of the first runs of a list.
func (a ahead) begin(ctx context.Context, decode func(context.Context, string) (*DecodedRun, error), list [][]site.Changed) {
	most := min(runtime.GOMAXPROCS(0), maxAhead)
	for _, registrations := range list[:min(len(list), most)] {
		id := registrations[0].ID
		if a[id] != nil || len(a) == most {
			continue
		}
		result := make(chan decoded, 1)
		a[id] = result
		go func() {
			defer recovery.Handle(func(err error) { result <- decoded{err: err} })
			run, err := decode(ctx, id)
			result <- decoded{run, err}
		}()
	}
}

// take returns the run with an id if its record is being decoded.
func (a ahead) take(id string) (d decoded, ok bool) {
	result := a[id]
	if result == nil {
		return d, false
	}
	delete(a, id)
	return <-result, true
}

// close waits for the runs that nothing has taken, and closes them.
func (a ahead) close() error {
	var failed []error
	for id := range a {
		if d, _ := a.take(id); d.run != nil {
			failed = append(failed, d.run.Close())
		}
	}
	return errors.Join(failed...)
}
