//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// unequalTasks runs three tasks. The tracked one ends first. The two others wait until resource-tracker has left
// their step, and only then use CPU time.
const unequalTasks = `cat >$HOME/task <<'X'
cd $HOME; : >began.$SLURM_LOCALID
until [ -e began.0 -a -e began.1 -a -e began.2 ]; do sleep 0.05; done
read name </proc/$PPID/comm; [ "$name" = resource-tracke ] && exit
ours() { for pid in $(pgrep -x resource-tracke); do grep -q "job_$SLURM_JOB_ID/step_$SLURM_STEP_ID" /proc/$pid/cgroup && return; done 2>/dev/null; false; }
while ours; do sleep 0.1; done; exec W --cpu 0.4
X
RT srun -O -n3 RT bash $HOME/task; echo srun said $?`

// runUnequal ends the tracker's task first: its run reports how many tasks ran longer,
// which it did not see. The tracker around srun tracks them to their end.
func runUnequal(t *testing.T, c *cluster, s *site) {
	id, spool := c.step(t, s, unequalTasks, "-N1", "-n1", "--mem=300")
	c.wait(t, id)
	if out := withoutSummaries(s.output(t, id)); out != "srun said 0\n" {
		t.Errorf("the job printed %q", out)
	}
	node, is := c.nodes[0], s.truthOf(t, id, c.nodes[0])
	inner, ok := stepRuns(t, spool, id, "0")[node]
	outer, too := stepRuns(t, spool, id, "batch")[node]
	if !ok || !too || len(is.tasks) != 2 {
		t.Fatalf("runs of the step: %+v, of the batch script: %+v; the tasks report %+v", inner, outer, is.tasks)
	}
	for task, said := range is.tasks {
		if _, low := said.disagrees(usedBy(t, inner, task)); !low {
			t.Errorf("task %s used %v of its %v while it was tracked", task, usedBy(t, inner, task), said.cpu)
		}
		if high, low := said.disagrees(usedBy(t, outer, task)); high || low {
			t.Errorf("task %s used %v, its process reports %v", task, usedBy(t, outer, task), said.cpu)
		}
	}
	const unseen = "SELECT count(*) FROM event WHERE kind = 'job' AND name = 'tasks' AND status = 'unseen'"
	if n := query(t, inner.path, unseen+" AND detail LIKE '2 other tasks of step 0 on this node %'"); n != "1" {
		t.Errorf("%s has %s events of the two other tasks, want 1", inner.path, n)
	}
	if n := query(t, outer.path, unseen); n != "0" {
		t.Errorf("%s has %s events of other tasks, want 0", outer.path, n)
	}
	text, _ := s.rtSpool(t, "--spool", spool, "report", fmt.Sprintf("%d.0", id))
	if !strings.Contains(text, "2 other tasks of step 0 continued on this node after ") {
		t.Errorf("the report does not name the other tasks:\n%s", text)
	}
}

// usedBy returns the CPU time of a task of step 0 in a run.
func usedBy(t *testing.T, r spooled, task string) time.Duration {
	t.Helper()
	us, err := strconv.ParseInt(query(t, r.path, "SELECT ifnull(max(cpu_usage_us), -1) FROM step_reading WHERE step = '0' AND task = "+task), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(us) * time.Microsecond
}
