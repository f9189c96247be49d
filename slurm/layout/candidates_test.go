package layout

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
)

func TestCandidates(t *testing.T) {
	both := cgroupfs.Mounts{V1: map[string]string{"freezer": "/cg/freezer", "memory": "/cg/memory", "cpuacct": "/cg/cpu,cpuacct"}, V2: "/cg/unified"}
	run := rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](5), Node: "n1", SLUID: "s0123456789ABC"}, Allocation: rt.Allocation{UID: rt.Some[uint64](1001)}}
	var got []string
	for _, c := range Candidates(&run, both) {
		if c.Version == 2 {
			got = append(got, c.Layout+" "+c.Dirs[cgroupfs.Unified])
			continue
		}
		got = append(got, c.Layout+" "+c.Dirs["freezer"]+" "+c.Dirs["memory"]+" "+c.Dirs["cpuacct"])
		if len(c.Dirs) != 3 {
			t.Errorf("directories %v, want those of the three mounted controllers", c.Dirs)
		}
	}
	want := []string{
		"v2/<node>_slurmstepd.scope/sluid /cg/unified/system.slice/n1_slurmstepd.scope/s0123456789ABC",
		"v2/<node>_slurmstepd.scope /cg/unified/system.slice/n1_slurmstepd.scope/job_5",
		"v2/slurmstepd.scope/sluid /cg/unified/system.slice/slurmstepd.scope/s0123456789ABC",
		"v2/slurmstepd.scope /cg/unified/system.slice/slurmstepd.scope/job_5",
		"v2/<slice>/<node>_slurmstepd.scope/sluid /cg/unified/*.slice/n1_slurmstepd.scope/s0123456789ABC",
		"v2/<slice>/<node>_slurmstepd.scope /cg/unified/*.slice/n1_slurmstepd.scope/job_5",
		"v2/<slice>/slurmstepd.scope/sluid /cg/unified/*.slice/slurmstepd.scope/s0123456789ABC",
		"v2/<slice>/slurmstepd.scope /cg/unified/*.slice/slurmstepd.scope/job_5",
		"v2/<slice>/<slice>/<node>_slurmstepd.scope/sluid /cg/unified/*.slice/*.slice/n1_slurmstepd.scope/s0123456789ABC",
		"v2/<slice>/<slice>/<node>_slurmstepd.scope /cg/unified/*.slice/*.slice/n1_slurmstepd.scope/job_5",
		"v2/<slice>/<slice>/slurmstepd.scope/sluid /cg/unified/*.slice/*.slice/slurmstepd.scope/s0123456789ABC",
		"v2/<slice>/<slice>/slurmstepd.scope /cg/unified/*.slice/*.slice/slurmstepd.scope/job_5",
		"v1/slurm_<node> /cg/freezer/slurm_n1/uid_1001/job_5 /cg/memory/slurm_n1/uid_1001/job_5 /cg/cpu,cpuacct/slurm_n1/uid_1001/job_5",
		"v1/slurm /cg/freezer/slurm/uid_1001/job_5 /cg/memory/slurm/uid_1001/job_5 /cg/cpu,cpuacct/slurm/uid_1001/job_5",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := Candidates(&rt.Run{}, both); got != nil {
		t.Errorf("a run without a job has candidates: %v", got)
	}
}

// On a host with several slurmds no candidate matches another node's directory, in any layout. A
// job over n1, n2 and n10 has one directory for each.
func TestCandidatesOfOneHost(t *testing.T) {
	for name, layout := range map[string]string{
		"v1":                  "memory/slurm_%/uid_1001/job_5",
		"v2":                  "unified/system.slice/%_slurmstepd.scope/job_5",
		"v2, other slice":     "unified/batch.slice/%_slurmstepd.scope/job_5",
		"v2, slice in slice":  "unified/site.slice/site-batch.slice/%_slurmstepd.scope/job_5",
		"v2, named by SLUID":  "unified/system.slice/%_slurmstepd.scope/s0123456789ABC",
		"v1, uid not known":   "memory/slurm_%/uid_77/job_5",
		"v2, one per host":    "unified/system.slice/slurmstepd.scope/job_5",
		"v1, upstream's name": "memory/slurm/uid_1001/job_5",
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, node := range []string{"n1", "n2", "n10", "xn1"} {
				for _, job := range []string{"", "0", "1"} { // job_5, job_50, job_51
					if err := os.MkdirAll(filepath.Join(root, strings.ReplaceAll(layout, "%", node)+job), 0o755); err != nil {
						t.Fatal(err)
					}
				}
			}
			mounts := cgroupfs.Mounts{V1: map[string]string{"memory": filepath.Join(root, "memory")}, V2: filepath.Join(root, "unified")}
			run := rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](5), Node: "n1", SLUID: "s0123456789ABC"}, Allocation: rt.Allocation{UID: rt.Some[uint64](1001)}}
			if strings.Contains(layout, "uid_77") {
				run.UID.Clear()
			}
			found := map[string]bool{}
			for _, c := range Candidates(&run, mounts) {
				for _, pattern := range []string{c.Dirs[cgroupfs.Unified], c.Dirs["memory"]} {
					matches, err := filepath.Glob(pattern)
					if err != nil {
						t.Fatalf("%q: %v", pattern, err)
					}
					for _, m := range matches {
						found[m] = true
					}
				}
			}
			want := map[string]bool{filepath.Join(root, strings.ReplaceAll(layout, "%", "n1")): true}
			if d := cmp.Diff(want, found); d != "" {
				t.Errorf("directories found (-want +got):\n%s", d)
			}
		})
	}
}

func TestCandidatesEscape(t *testing.T) {
	run := rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](5), Node: `n*[1]?`}}
	for _, c := range Candidates(&run, cgroupfs.Mounts{V2: "/cg"}) {
		for _, other := range []string{"/cg/system.slice/nx1y_slurmstepd.scope/job_5", "/cg/system.slice/n[1]_slurmstepd.scope/job_5"} {
			if ok, err := filepath.Match(c.Dirs[cgroupfs.Unified], other); ok || err != nil {
				t.Errorf("%q matches %q, %v", c.Dirs[cgroupfs.Unified], other, err)
			}
		}
	}
}
