package tracker

import (
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/environ"
)

// A reader that comes back after the end of the run does not write a running run again.
func TestJobEnvironmentAfterItsClose(t *testing.T) {
	var changes int
	e := NewJobEnvironment(nil, rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](12)}}, func(rt.Run) error { changes++; return nil }, func(err error) { t.Error(err) })
	e.merge(1, environ.NewEnv([]string{"SLURM_JOB_ID=12", "SLURM_JOB_NAME=first"}))
	if name := e.Run().Meta.JobName; name != "first" || changes != 1 {
		t.Fatalf("name %q after %d changes", name, changes)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e.merge(2, environ.NewEnv([]string{"SLURM_JOB_ID=12", "SLURM_JOB_NAME=first", "TRACKER_TEAM=late"}))
	if team := e.Run().Meta.Team; team != "" || changes != 1 {
		t.Errorf("after Close: team %q, %d changes", team, changes)
	}
}
