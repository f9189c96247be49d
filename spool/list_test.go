package spool

import (
	"testing"

	"github.com/resource-tracker/rt"
)

// A site finds a job by the number in its name.
func TestJobNumber(t *testing.T) {
	for job, want := range map[string]rt.Opt[uint64]{
		"12": rt.Some[uint64](12), "12_3": rt.Some[uint64](12), "12+1": rt.Some[uint64](12), "12.0": rt.Some[uint64](12), "12.batch": rt.Some[uint64](12),
		"job-12.0-n1-1772367120000": rt.Some[uint64](12), "run-7-n1-1772367120000": rt.None[uint64](), "": rt.None[uint64](), "x": rt.None[uint64](),
		"99999999999999999999": rt.None[uint64](), "-1": rt.None[uint64](),
	} {
		if got := JobNumber(job); got != want {
			t.Errorf("%q: %v", job, got)
		}
	}
}
