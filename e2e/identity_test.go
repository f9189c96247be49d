//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestIdentity submits jobs with the environment of another job, as sbatch passes on its caller's. The calls come
// from a task of an array and from a step, and with variables that a user has set.
func TestIdentity(t *testing.T) {
	s := newSite(t, workDir(t))
	c := lab(t, s)
	s.configure(nil)
	out := "--output=" + s.path("out", "%j")
	parent := c.submit(t, s, "sbatch -n1 --mem=20 -J child "+out+" --wrap 'sleep 2'\n"+
		"srun -n1 sbatch -n1 --mem=20 -J stepchild "+out+" --wrap 'sleep 2'\nsleep 3", "-n1", "--mem=60", "-J", "parent", "--array=7")
	plain := c.submit(t, s, "SLURM_ARRAY_JOB_ID=500 SLURM_ARRAY_TASK_ID=9 SLURM_JOB_QOS=gold SLURM_JOB_RESERVATION=maint SLURM_MEM_PER_NODE=777 "+
		"SLURM_HET_SIZE=1 SLURM_JOB_ID_HET_GROUP_0=1 sbatch -n1 --mem=20 -J forged "+out+" --wrap 'sleep 2'\nsleep 3", "-n1", "--mem=20", "-J", "plain")
	c.wait(t, parent)
	c.wait(t, plain)
	until(t, "the end of all jobs", func() bool { return strings.TrimSpace(c.root(t, "squeue", "-h")) == "" })

	settle(t, s.path("spool"))

	labels := map[string]string{"parent": "", "child": fmt.Sprint(parent, "_7"), "stepchild": fmt.Sprint(parent, "_7"), "plain": "", "forged": "500_9"}
	for _, r := range runs(t, s.path("spool")) {
		label, isOurs := labels[r.JobName]
		if !isOurs {
			t.Errorf("job %d has the name %q", r.JobID, r.JobName)
			continue
		}
		delete(labels, r.JobName)
		id, array := fmt.Sprint(r.JobID), ""
		if r.JobName == "parent" {
			id, array = fmt.Sprint(parent, "_7"), fmt.Sprint(parent, "_7")
		}
		got := strings.Trim(null(r.ArrayJob)+"_"+null(r.ArrayTask), "_")
		if want := fmt.Sprintf("%s:%s@%s#0", c.name, id, r.Node); got != array || r.ExternalID != want {
			t.Errorf("%s: array %q, external id %q; want %q, %q", r.JobName, got, r.ExternalID, array, want)
		}
		if r.HetJob.Valid || r.HetOffset.Valid {
			t.Errorf("%s: component %v of %v", r.JobName, r.HetOffset, r.HetJob)
		}
		const tag = "SELECT json_extract(tags, '$.environ_array') FROM run"
		isSubmitter := r.JobName == "plain" // one of its processes has the forged variables
		if got := query(t, r.path, tag); got != label && !isSubmitter {
			t.Errorf("%s: the label is %q, want %q", r.JobName, got, label)
		}
		if got := query(t, r.path, "SELECT ifnull(qos, '') || ifnull(reservation, '') || ifnull(alloc_mem_bytes, '') FROM run"); got != "" && r.JobName == "forged" {
			t.Errorf("%s: QOS, reservation, memory: %q", r.JobName, got)
		}
	}
	if len(labels) > 0 {
		t.Errorf("there is no run of %v", labels)
	}
}
