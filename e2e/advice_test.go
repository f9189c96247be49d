//go:build e2e

package e2e

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

// adviceCase is a job that requests too much or too little, W in its script is the workload. A
// report has no advice from less than a minute.
type adviceCase struct {
	name    string
	script  string
	args    []string
	advised map[string]string // the request for each resource but the time
}

// A busy machine can miss a last reading, and then the report has no advice: so many copies of a job run at once.
const copies = 3

func adviceCases(node string) []adviceCase {
	return []adviceCase{
		{name: "uneven", script: "srun bash -c 'exec W --touch $((50 + 450 * SLURM_PROCID)) --hold 61'", args: []string{"-N2", "--ntasks-per-node=1", "--mem=1500M", "--time=20"},
			advised: map[string]string{"memory": "--mem=768M"}},
		{name: "wasteful", script: "exec W --cpu 2 --touch 100 --hold 60", args: []string{"-w", node, "-n1", "-c2", "--mem=800M", "--time=30"},
			advised: map[string]string{"memory": "--mem=160M (or --mem-per-cpu=160M with 1 CPU)", "cores": "--cpus-per-task=1 (or --ntasks-per-node=1)"}},
		{name: "killed", script: "W --touch 100; s=$?; sleep 2; exit $s", args: []string{"-w", node, "-n1", "--mem=64M"},
			advised: map[string]string{"memory": "--mem=128M"}},
		{name: "timeout", script: "exec W --cpu 0.3 --hold 3600", args: []string{"-w", node, "-n1", "--mem=60M", "--time=1"}},
		// Two cores in bursts of less than an interval. It ends idle: a busy machine can miss the end of the last burst.
		// One core is advised when the job takes over ten times its CPU time: 144 s leave time for a busy machine.
		{name: "bursts", script: "for i in 1 2 3 4 5 6; do sleep 9; W --threads 2 --cpu 2.4; done; sleep 3", args: []string{"-w", node, "-n1", "-c2", "--mem=100M"},
			advised: map[string]string{"memory": "--mem=16M (or --mem-per-cpu=8M with 2 CPUs)"}},
	}
}

// withAdvice returns the jobs for which there is advice, with the proposed requests for each resource but the time.
// How long a job takes depends on the machine.
func withAdvice(node string) (cases []adviceCase) {
	for _, k := range adviceCases(node) {
		if k.name == "bursts" || k.name == "timeout" {
			continue // there is no advice but for the time
		}
		k.name += "-again"
		for _, advice := range k.advised {
			option, _, _ := strings.Cut(advice, " (")
			k.args = append(k.args, option) // the last one counts
		}
		cases = append(cases, k)
	}
	return cases
}

// TestAdviceHolds runs jobs, and at the same time the jobs that follow the advice in the first jobs' reports. No job
// is killed, and the report then has no other advice. The advice on the time is that for the time that each job has
// taken.
func TestAdviceHolds(t *testing.T) {
	s := newSite(t, workDir(t))
	c := reportLab(t, s, "tracker.interval", `"10s"`, "tracker.first_for", `"5s"`)
	cases, again := adviceCases(c.nodes[0]), withAdvice(c.nodes[1])
	ids := runCopies(t, c, s, slices.Concat(cases, again))
	for _, k := range cases {
		isStopped := k.name == "killed" || k.name == "timeout"
		id, job := firstGood(t, c, s, &k, ids[k.name], func(id string, j *report.JobSummary) string {
			if j.AdviceReason != "" && !isStopped { // also with -update
				return j.AdviceReason
			}
			g := reports{t: t, s: s, ids: []string{id}}
			return g.differences(k.name)
		})
		checkAdvice(t, &k, &job)
		if k.name == "uneven" {
			g := reports{t: t, s: s, ids: []string{id}, args: []string{"--spool", partOf(t, s, id, c.nodes[0])}}
			g.compare("missing")
		}
	}
	for _, k := range again {
		for _, id := range ids[k.name] {
			for _, j := range reported(t, s, id) {
				if j.Outcome != rt.OutcomeFinished || j.Nodes.OOMKills.Or(0) > 0 {
					t.Errorf("%s with %q is %s", k.name, k.args, j.Outcome)
				}
			}
		}
		if k.name == "killed-again" { // it is too short for more advice
			continue
		}
		_, job := firstGood(t, c, s, &k, ids[k.name], func(_ string, j *report.JobSummary) string { return j.AdviceReason })
		for _, a := range job.Advice {
			isRight := a.Verdict == report.WellSized || a.Verdict == report.Least
			if a.Resource == "time" {
				checkTime(t, &k, &job, &a)
			} else if a.Request != "" || !isRight {
				t.Errorf("%s with %q: %s, %s", k.name, k.args, a.Verdict, a.String())
			}
		}
	}
	c.healthy(t)
}

// partOf returns a spool that has only one node's run of a job.
func partOf(t *testing.T, s *site, id, node string) string {
	t.Helper()
	dir := t.TempDir()
	files, err := filepath.Glob(s.path("spool", "job-"+id+"-"+node+"-*.db"))
	if err != nil || len(files) != 1 {
		t.Fatalf("runs of job %s on %s: %q, %v", id, node, files, err)
	}
	copyFile(t, files[0], filepath.Join(dir, filepath.Base(files[0])))
	return dir
}

// runCopies runs the copies of jobs and returns their ids.
func runCopies(t *testing.T, c *cluster, s *site, cases []adviceCase) map[string][]string {
	t.Helper()
	var all []int64
	ids := map[string][]string{}
	for i := range cases {
		k := &cases[i]
		for n := range copies {
			script := strings.ReplaceAll(k.script, "W ", s.workload()+" ")
			id := c.submit(t, s, script, append([]string{"-p", c.partition, "-J", fmt.Sprintf("%s-%c", k.name, 'a'+n)}, k.args...)...)
			ids[k.name], all = append(ids[k.name], fmt.Sprint(id)), append(all, id)
		}
	}
	for _, id := range all {
		c.wait(t, id)
	}
	settle(t, s.path("spool"))
	for _, id := range ids["timeout"] {
		notConfirmed(t, s, id)
	}
	drainAll(t, s)
	return ids
}

// firstGood returns the first copy of a job without a problem. A busy machine can miss the last reading of each copy:
// then they run again.
func firstGood(t *testing.T, c *cluster, s *site, k *adviceCase, ids []string, problem func(string, *report.JobSummary) string) (string, report.JobSummary) {
	t.Helper()
	for try := 1; ; try++ {
		var last string
		for _, id := range ids {
			j := reported(t, s, id)[0]
			if last = problem(id, &j); last == "" {
				return id, j
			}
		}
		if try == 3 {
			t.Fatalf("no copy of %s is good: %s", k.name, last)
		}
		t.Logf("no copy of %s is good, they run again: %s", k.name, last)
		ids = runCopies(t, c, s, []adviceCase{*k})[k.name]
	}
}

func checkAdvice(t *testing.T, k *adviceCase, j *report.JobSummary) {
	t.Helper()
	got := map[string]string{}
	for _, a := range j.Advice {
		if a.Resource == "time" {
			checkTime(t, k, j, &a)
		} else if a.Request != "" {
			got[a.Resource] = a.Request
		}
		if a.Text == "" {
			t.Errorf("%s: %s without a text", k.name, a.Resource)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(k.advised) {
		t.Errorf("%s: advice %v, want %v", k.name, got, k.advised)
	}
}

// checkTime checks the advice on the time of a job without comparable earlier ones, with a limit of many times what it
// needs. A job that was stopped at its limit gets twice the limit.
func checkTime(t *testing.T, k *adviceCase, j *report.JobSummary, a *report.Advice) {
	t.Helper()
	elapsed := j.ElapsedSecs.Or(0)
	minutes, verdict := uint64(math.Ceil(elapsed*1.5/60)), report.Less
	if j.Outcome == rt.OutcomeTimeout {
		minutes, verdict = 2, report.More
	}
	if want := fmt.Sprintf("--time=00:%02d:00", minutes); a.Request != want || a.Verdict != verdict {
		t.Errorf("%s: %s, %q after %v s, want %s, %q", k.name, a.Verdict, a.Request, elapsed, verdict, want)
	}
}
