package slurm

import (
	"testing"

	"github.com/resource-tracker/rt"
)

// The environment of a job is believed for tasks of an array of the same user alone.
func TestBelieveArrays(t *testing.T) {
	job := func(id uint64, user, claim string) *rt.Run {
		return &rt.Run{
			Identity: rt.Identity{Cluster: "c", JobID: rt.Some(id), Node: "n1"}, Allocation: rt.Allocation{User: user},
			Meta: rt.Metadata{Tags: map[string]string{EnvironArrayTag: claim}},
		}
	}
	proven := func(run *rt.Run, array, task uint64) *rt.Run {
		run.ArrayJobID, run.ArrayTaskID = rt.Some(array), rt.Some(task)
		return run
	}
	elsewhere := job(20, "anna", "14_5")
	elsewhere.Cluster = "d"
	otherID := job(21, "anna", "14_6")
	otherID.UID = rt.Some[uint64](1002)
	last := proven(job(14, "anna", ""), 14, 4)
	last.UID = rt.Some[uint64](1001)
	runs := []*rt.Run{
		last, proven(job(13, "anna", ""), 14, 9), job(15, "anna", "14_1"), job(16, "bert", "14_2"), job(17, "", "14_3"), job(18, "anna", "14_9"),
		elsewhere, otherID, job(22, "anna", "7_1"), job(23, "anna", "8_1"), job(24, "anna", "14_x"), job(13, "anna", "14_1"),
	}
	BelieveArrays(runs, func(_ *rt.Run, array uint64) bool { return array == 7 })
	for i, want := range []string{"14_4", "14_9", "14_1", "16", "17", "18", "20", "21", "7_1", "23", "24", "14_1"} {
		if got := runs[i].Label(); got != want {
			t.Errorf("run %d is %s, want %s", i, got, want)
		}
	}
	BelieveArrays([]*rt.Run{job(15, "anna", "14_1")}, nil)
}
