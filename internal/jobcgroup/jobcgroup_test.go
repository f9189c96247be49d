package jobcgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/cgroup"
	"github.com/resource-tracker/rt/slurm"
)

func TestCandidate(t *testing.T) {
	v1 := map[string]string{"cpuacct": "/sys/fs/cgroup/cpuacct/slurm/uid_1/job_2"}
	for _, tt := range []struct {
		name string
		from slurm.Candidate
		want cgroup.Candidate
	}{
		{"v1", slurm.Candidate{Layout: "l1", Version: 1, Dirs: v1}, cgroup.Candidate{Layout: "l1", Version: 1, Dirs: v1}},
		{"v2", slurm.Candidate{Layout: "l2", Version: 2, Dir: "/sys/fs/cgroup/job_2"},
			cgroup.Candidate{Layout: "l2", Version: 2, Dirs: map[string]string{cgroup.Unified: "/sys/fs/cgroup/job_2"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Candidate(tt.from)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Every place that Slurm names is there, in its order.
func TestCandidates(t *testing.T) {
	run := rt.Run{JobID: rt.Some[uint64](12), UID: rt.Some[uint64](1001), Node: "n1"}
	mounts := slurm.Mounts{V2: "/sys/fs/cgroup"}
	all := slurm.Candidates(&run, mounts)
	got := Candidates(&run, mounts)
	if len(all) == 0 || len(got) != len(all) {
		t.Fatalf("%d places, want %d", len(got), len(all))
	}
	for i := range all {
		if diff := cmp.Diff(Candidate(all[i]), got[i]); diff != "" {
			t.Errorf("place %d: %s", i, diff)
		}
	}
}
