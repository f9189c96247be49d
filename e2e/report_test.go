//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt/report"
)

// shared is a partition in which the jobs of a test run at the same time, whatever the number of
// cores is.
const shared = "PartitionName=shared Nodes=ALL OverSubscribe=FORCE:16 MaxTime=INFINITE DefaultTime=60 State=UP"

// reportLab starts a Slurm with accounting, in which drain reads the outcomes, the ids of arrays and the time limits.
// The settings are from rt.toml, see serve.
func reportLab(t *testing.T, s *site, settings ...string) *cluster {
	t.Helper()
	t.Setenv("TZ", "UTC")
	t.Setenv("LC_ALL", "C.UTF-8")
	c := labWith(t, s, "--conf", shared)
	c.partition, c.partitions = "shared", 2
	conf := s.path("lab", "etc", "slurm.conf")
	t.Setenv("SLURM_CONF", conf)
	if err := os.WriteFile(s.path("sacct"), []byte("#!/bin/sh\nSLURM_CONF="+conf+" exec sacct \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	serve(t, s, s.path("spool"), append(settings, "drain.sacct", fmt.Sprintf("%q", s.path("sacct")))...)
	return c
}

// drainAll drains until accounting has confirmed every run.
func drainAll(t *testing.T, s *site) {
	t.Helper()
	settle(t, s.path("spool"))
	until(t, "sacct to confirm every run", func() bool {
		if out, status := s.rtSpool(t, "drain"); status != 0 {
			t.Fatalf("drain ended with %d and printed %q", status, out)
		}
		return !slices.ContainsFunc(runs(t, s.path("spool")), func(r spooled) bool { return r.Source != "sacct" })
	})
}

// notConfirmed checks the outcome of a job that Slurm ended, before a drain: Slurm 22.05 does not pass the time limit
// to the node.
func notConfirmed(t *testing.T, s *site, id string) {
	t.Helper()
	line, _ := s.rtSpool(t, "report", "--format", "oneline", id)
	if !strings.Contains(line, ": cancelled or timed out, ") {
		t.Errorf("before the drain: %s", line)
	}
}

// reported returns a job's parts of report --format json: one, or one for each component or task.
func reported(t *testing.T, s *site, id string, args ...string) []report.JobSummary {
	t.Helper()
	out, status := s.rtSpool(t, append(args, "report", "--format", "json", id)...)
	var list []report.JobSummary
	if err := json.Unmarshal([]byte(out), &list); err != nil || status != 0 || len(list) == 0 {
		t.Fatalf("report of job %s ended with %d, %v: %s", id, status, err, out)
	}
	return list
}

// reportCase is a job with golden reports. W in the script is the workload.
type reportCase struct {
	name    string
	script  string
	args    []string
	outcome string
	cpu     float64 // seconds that it uses on all nodes, at least
	touched uint64  // MiB on one node, at least
	limit   float64 // seconds
}

func reportCases(nodes []string) []reportCase {
	on := nodes[0]
	return []reportCase{
		{name: "array", script: "exec W --cpu 0.3 --touch 20 --hold 1", args: []string{"-w", on, "-n1", "--mem=60", "--array=1-3", "--time=5"}, outcome: "finished", cpu: 0.25, touched: 20, limit: 300},
		{name: "oom", script: "W --touch 20 --hold 1; W --touch 300; s=$?; sleep 2; exit $s", args: []string{"-w", on, "-n1", "--mem=64"}, outcome: "oom", touched: 64, limit: 3600},
		{name: "short", script: "exec W --cpu 0.1 --hold 0.1", args: []string{"-w", on, "-n1", "--mem=60", "--time=1-0"}, outcome: "finished", cpu: 0.09, limit: 86400},
		{name: "failed", script: "exec W --cpu 0.3 --exit 7", args: []string{"-w", on, "-n1", "--mem=60"}, outcome: "failed", cpu: 0.25, limit: 3600},
		{name: "two-nodes", script: "srun bash -c 'exec W --cpu 0.5 --touch $((30 + 30 * SLURM_PROCID)) --hold 2'", args: []string{"-N2", "--ntasks-per-node=1", "--mem=100"}, outcome: "finished", cpu: 0.9, touched: 30, limit: 3600},
		{name: "het", script: "srun --het-group=0,1 W --cpu 0.5 --touch 16 --hold 1", args: []string{"-n1", "--mem=100", "-w", nodes[0], ":", "-p", "shared", "-n1", "--mem=80", "-w", nodes[1], "-J", "het"},
			outcome: "finished", cpu: 0.45, touched: 16, limit: 3600},
		{name: "cancel", script: "exec W --cpu 0.3 --hold 3600", args: []string{"-w", on, "-n1", "--mem=60"}, outcome: "cancelled", cpu: 0.15, limit: 3600},
		{name: "requeue", script: `[ -n "$SLURM_RESTART_COUNT" ] && exec W --cpu 0.3; exec W --cpu 0.3 --hold 3600`, args: []string{"-w", on, "-n1", "--mem=60", "--requeue"}, outcome: "finished", cpu: 0.25, limit: 3600},
	}
}

// TestReports compares the reports of jobs with golden text, JSON documents and pages. The job which runs into its
// time limit, which takes Slurm more than a minute, is in TestAdviceHolds.
func TestReports(t *testing.T) {
	s := newSite(t, workDir(t))
	c := reportLab(t, s)
	cases := reportCases(c.nodes)
	slices.Reverse(cases) // no other job may run when one is requeued
	all := submitCases(t, s, c, cases)
	settle(t, s.path("spool"))
	notConfirmed(t, s, all["cancel"][0])
	drainAll(t, s)
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			g := reports{t: t, s: s, ids: all[k.name]}
			differs := g.differences(k.name)
			for try := 1; differs != "" && try < 3; try++ { // a busy machine can miss a last reading
				t.Logf("it runs again: %s", differs)
				g.ids = submitCases(t, s, c, []reportCase{k})[k.name]
				drainAll(t, s)
				differs = g.differences(k.name)
			}
			if differs != "" {
				t.Error(differs)
			}
			k.check(t, s, g.ids)
		})
	}
	c.healthy(t)
	for _, line := range s.logLines(t) {
		t.Errorf("unexpected log line: %s", line)
	}
}

// submitCases runs jobs, and returns the ids of each: its own, then the ids of its tasks or components.
func submitCases(t *testing.T, s *site, c *cluster, cases []reportCase) (all map[string][]string) {
	t.Helper()
	ids := map[string]int64{}
	for _, k := range cases {
		script := strings.ReplaceAll(k.script, "W ", s.workload()+" ")
		ids[k.name] = c.submit(t, s, script, append([]string{"-p", c.partition, "-J", k.name}, k.args...)...)
		if k.name == "requeue" {
			until(t, "the first attempt to have used its CPU time", func() bool { return s.hasUsed(c, t, ids[k.name], 200*time.Millisecond) })
			c.requeue(t, ids[k.name])
		}
	}
	if id, ok := ids["cancel"]; ok {
		until(t, "the job to cancel to have used its CPU time", func() bool { return s.hasUsed(c, t, id, 200*time.Millisecond) })
		c.root(t, "scancel", fmt.Sprint(id))
	}
	all = map[string][]string{}
	for _, k := range cases {
		all[k.name] = []string{fmt.Sprint(ids[k.name])}
		for id := range c.wait(t, ids[k.name]) {
			if id != ids[k.name] {
				all[k.name] = append(all[k.name], fmt.Sprint(id))
			}
		}
		slices.Sort(all[k.name][1:])
	}
	return all
}

// check compares the figures, which the golden files omit, with what the job did. A figure that was not read to the end
// of the job says so: it may be lower.
func (k *reportCase) check(t *testing.T, s *site, ids []string) {
	for _, j := range reported(t, s, ids[0]) {
		if string(j.Outcome) != k.outcome || j.LimitSecs.Or(0) != k.limit || j.Missing != 0 {
			t.Errorf("job %s is %s, its time limit %v s, %d nodes missing", j.Label, j.Outcome, j.LimitSecs.Or(0), j.Missing)
		}
		used, all, elapsed := j.Nodes.UsedSecs.Or(-1), j.Nodes.AllocatedSecs.Or(0), j.ElapsedSecs.Or(0)
		isPossible := used >= 0 && used <= all*1.05 && elapsed > 0.1 && elapsed < patience.Seconds()
		isLow := used < k.cpu && j.Nodes.UsedMark != report.AtLeast
		if isLow || !isPossible {
			t.Errorf("job %s used %v s (%s) of %v s in %v s", j.Label, used, j.Nodes.UsedMark, all, elapsed)
		}
		for _, n := range j.Nodes.Nodes {
			peak, limit := n.PeakBytes.Or(0), n.LimitBytes.Or(0)
			isLow := peak < k.touched<<20 && n.PeakMark != report.AtLeast
			if isLow || peak > limit {
				t.Errorf("job %s on %s: peak %d (%s) of %d", j.Label, n.Node, peak, n.PeakMark, limit)
			}
		}
		for _, r := range j.Runs {
			if n := r.Record.Readings; n < 2 || r.Record.Expected < n || strconv.Itoa(len(r.Series.Cores)) == "0" {
				t.Errorf("job %s on %s: %d of %d readings", j.Label, r.Run.Node, n, r.Record.Expected)
			}
			for _, p := range r.Processes.Top {
				if p.Step == "extern" {
					t.Errorf("job %s on %s: %s of the extern step is among the job's processes", j.Label, r.Run.Node, p.Comm)
				}
			}
		}
	}
}
