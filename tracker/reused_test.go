package tracker

import (
	"testing"

	"github.com/resource-tracker/rt"
)

// TestMayBeReused: only a second attempt can have the directory of the first, and not if the SLUID names it.
func TestMayBeReused(t *testing.T) {
	for _, tt := range []struct {
		run  rt.Identity
		dir  string
		want bool
	}{
		{rt.Identity{}, "/scope/job_12", false},
		{rt.Identity{Attempt: 1}, "/scope/job_12", true},
		{rt.Identity{Attempt: 1, SLUID: "s1A2B"}, "/scope/job_12", true},
		{rt.Identity{Attempt: 1, SLUID: "s1A2B"}, "/scope/s1A2B", false},
	} {
		if got := mayBeReused(&rt.Run{Identity: tt.run})(tt.dir); got != tt.want {
			t.Errorf("attempt %d, SLUID %q, %s: %t", tt.run.Attempt, tt.run.SLUID, tt.dir, got)
		}
	}
}
