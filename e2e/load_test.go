//go:build e2e

package e2e

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// loadCase is a job of TestTruth. In its script W is the workload, and T W a workload with its own report. D is its
// directory of reports and F the prefix of a file name.
type loadCase struct {
	name    string
	args    []string
	script  string
	steps   int   // numbered ones
	reports int   // of its processes
	peak    int64 // MiB that were in use at the same time
	daemon  bool  // bytes of processes that no process of the job waits for
}

// untilReports ends a script when its daemons have reported.
const untilReports = `; until [ $(ls D/$SLURM_JOB_ID-*.json | wc -l) = N ]; do sleep 0.1; done`

// loads lists the jobs of TestTruth.
func loads() []loadCase {
	daemons := func(n int) string { return strings.ReplaceAll(untilReports, "N", strconv.Itoa(n)) }
	one := []string{"-n1", "--mem=100"}
	return []loadCase{
		{name: "processes", args: one, reports: 1, peak: 40,
			script: `exec T W -- bash -c 'W --threads 3 --cpu 0.2; W --forks 80; W --bursts 120; W --shm 24 --touch 16; W --write 24 --read 24 --file F; for i in $(seq 40); do W --cpu 0.002; done'`},
		{name: "daemons", args: one, reports: 4, daemon: true,
			script: `exec T W -- bash -c 'W --daemon D --cpu 0.4 --write 24 --file F-1; W --daemon D --threads 2 --cpu 0.1; W --daemon D --forks 40; W --cpu 0.1 --write 8 --file F-2` + daemons(3) + `'`},
		{name: "quiet-daemon", args: one, reports: 2, daemon: true,
			script: `exec T W -- bash -c 'W --daemon D --write 16 --file F` + daemons(1) + `'`},
		{name: "quick-steps", args: one, reports: 1 + quickSteps, steps: quickSteps, peak: 8,
			script: `exec T W -- bash -c 'for i in $(seq ` + strconv.Itoa(quickSteps) + `); do srun -n1 env RT_TRUTH=D W --cpu 0.01 --touch 8; done'`},
		{name: "parallel-steps", args: []string{"-n3", "--overcommit", "-N1", "--mem=200"}, reports: 1 + 6, steps: 3, peak: 16,
			script: `exec T W -- bash -c 'for i in 1 2 3; do srun -O --overlap -n2 env RT_TRUTH=D W --threads $i --cpu 0.1 --touch $((4 * i + 4)) --shm 2 --forks 10 --write $((4 * i)) --file F-$i & done; wait'`},
		{name: "daemon-of-a-step", args: one, reports: 3, steps: 1, daemon: true,
			script: `exec T W -- srun -n1 env RT_TRUTH=D W -- bash -c 'W --daemon D --cpu 0.2 --write 8 --file F-1; W --cpu 0.1` + daemons(1) + `'`},
	}
}

// TestTruth runs jobs of known size with cgroup v1. All outputs with their figures agree with
// getrusage(2) and with each other. A figure that does not agree is marked as a lower bound.
func TestTruth(t *testing.T) {
	s := newSite(t, diskDir(t))
	runLoads(t, lab(t, s), s)
}

// TestTruthV2 is TestTruth with cgroup v2 and the oldest Slurm, or with each one, see allVar. A
// copy of it runs in a virtual machine.
func TestTruthV2(t *testing.T) {
	if os.Getenv(guestVar) != "" {
		c, s := guest(t)
		t.Run("guest", func(t *testing.T) { runLoads(t, c, s) })
		return
	}
	for _, v := range versions {
		if !v.isOldest() && !v.isAll() {
			continue
		}
		t.Run(v.slurm, func(t *testing.T) {
			share := shareWithGuest(t, newSite(t, workDir(t)))
			out, err := inMachine(v.suite, "slurm-run", share, "./e2e.test", "-test.run", "^TestTruthV2$", "-test.v", "-test.timeout", "25m").CombinedOutput()
			t.Logf("%s", out)
			replay(t, out)
			if err != nil {
				t.Fatalf("cg2-vm: %v", err)
			}
		})
	}
}

// runLoads runs the jobs, on different nodes at the same time, and delivers their runs.
func runLoads(t *testing.T, c *cluster, s *site) {
	all := loads()
	ids := make([]int64, len(all))
	for i, k := range all {
		ids[i] = c.load(t, s, k, c.nodes[i%len(c.nodes)])
		if c.oneByOne {
			c.wait(t, ids[i])
		}
	}
	for _, id := range ids {
		c.wait(t, id)
	}
	settle(t, s.path("spool"))
	for i, k := range all {
		t.Run(k.name, func(t *testing.T) {
			node := c.nodes[i%len(c.nodes)]
			apart, late := checkLoad(t, s, k, onlyRun(t, s, ids[i], node))
			for try := 1; mayRunAgain(c, try, apart, late); try++ {
				t.Logf("%s%s; running it again", apart, late)
				ids[i] = c.load(t, s, k, node)
				c.wait(t, ids[i])
				settle(t, s.path("spool"))
				apart, late = checkLoad(t, s, k, onlyRun(t, s, ids[i], node))
			}
			if late != "" && !c.oneByOne {
				t.Errorf("the ledger reports each time: %s", late)
			}
			if apart != "" {
				t.Error(apart)
			}
		})
	}
	t.Run("delivered", func(t *testing.T) { checkDeliveredRows(t, s) })
	c.healthy(t)
	for _, line := range s.logLines(t) {
		t.Errorf("unexpected log line: %s", line)
	}
}

// mayRunAgain reports whether a job runs again, see cluster.tries. On a busy node a slurmstepd may
// end before its final reading. On one slow CPU another run does not help.
func mayRunAgain(c *cluster, try int, apart, late string) bool {
	isApart, isLate := apart != "" && try < c.tries, late != "" && !c.oneByOne && try < 5
	return isApart || isLate
}

// load submits one of the jobs.
func (c *cluster) load(t *testing.T, s *site, k loadCase, node string) int64 {
	t.Helper()
	script := strings.NewReplacer("T W", "env RT_TRUTH="+s.path("truth")+" "+s.workload(), "W ", s.workload()+" ",
		"=D ", "="+s.path("truth")+" ", " D ", " "+s.path("truth")+" ", " D/", " "+s.path("truth")+"/", " F", " "+s.path("out", "data-$SLURM_JOB_ID")).Replace(k.script)
	return c.submit(t, s, script, append([]string{"-w", node, "-J", k.name}, k.args...)...)
}

// checkLoad compares a run with the reports of its processes. apart is a message if the run has
// more CPU time. late is the ledger's message if a slurmstepd was read too late for its bytes.
func checkLoad(t *testing.T, s *site, k loadCase, r spooled) (apart, late string) {
	t.Helper()
	is := s.truthOf(t, r.JobID, r.Node)
	if is.reports != k.reports {
		t.Fatalf("%d processes have reported, want %d; the job printed %s", is.reports, k.reports, s.output(t, r.JobID))
	}
	if is.read < 0 || is.written < 0 {
		t.Fatalf("the processes could not read their bytes: %+v", is)
	}
	got := readOutputs(t, s, r)
	t.Logf("%s, truth: CPU %v, read %d, written %d, %d MiB", got, is.cpu, is.read, is.written, k.peak)
	if high, _ := is.disagrees(got.cpu()); high || got.report.CPU.UsedMark == "" {
		apart = checkCPU(t, is, got.cpu(), r.path)
	}
	if peak := got.report.Memory.PeakBytes; peak < k.peak<<20 || peak > 200<<20 {
		t.Errorf("%s: memory peak %d, %d MiB were in use", r.path, peak, k.peak)
	}
	late = checkLoadBytes(t, k, is, got)
	apart += checkLoadSteps(t, k, is, got)
	got.agree(t)
	possible(t, r)
	return apart, late
}

// checkLoadBytes compares the bytes. The bytes of a daemon may be missing. So may the bytes of a step that was read
// too late according to the ledger; late is the ledger's message. The ledger, the report and its JSON have all bytes
// as a lower bound, see agree.
func checkLoadBytes(t *testing.T, k loadCase, is truth, got *outputs) (late string) {
	t.Helper()
	io, missed := got.report.IO, got.ledger("bytes")
	if strings.Contains(missed, "slurmstepd ended before its final reading") {
		late = missed
	}
	for _, x := range []struct {
		verb       string
		got, truth int64
		own        int64 // what a process may add after its report
	}{
		{"read", io.ReadBytes, is.read, 64 << 10},        // pages of its program, where the page cache has lost them
		{"written", io.WriteBytes, is.written, 12 << 10}, // a report is a file of its own: a page of it and of its directory
	} {
		slack := max(x.truth/200, int64(is.reports)*x.own)
		if x.got > x.truth+slack {
			t.Errorf("%d bytes %s, the processes say %d", x.got, x.verb, x.truth)
		}
		isPermitted := k.daemon || late != ""
		isLess := x.got < x.truth-slack
		if isLess && !isPermitted {
			t.Errorf("%d bytes %s, the processes say %d; the ledger: %s", x.got, x.verb, x.truth, missed)
		}
		if isLess && io.Mark == "" {
			t.Errorf("%d bytes %s, the processes say %d, and nothing says that this is a lower bound", x.got, x.verb, x.truth)
		}
	}
	if missed != "" && late == "" && !k.daemon {
		t.Errorf("no bytes are missing, and the ledger has %s", missed)
	}
	return late
}

// checkLoadSteps compares each numbered step with the reports of its processes, and the sum of the
// steps with the job. The ledger names each step without a final reading.
func checkLoadSteps(t *testing.T, k loadCase, is truth, got *outputs) (apart string) {
	t.Helper()
	for i := range k.steps {
		name := strconv.Itoa(i)
		own, is := got.step(name), is.steps[name]
		if isNoted := got.isNoted(name); isNoted {
			t.Logf("step %s: %+v, CPU %v; the ledger says that it was not read", name, own, is.cpu)
			continue
		}
		if own == nil || own.UsedSecs == nil || own.PeakBytes < is.touched {
			t.Errorf("step %s: %+v; its processes used %v and touched %d bytes; the ledger: %s", name, own, is.cpu, is.touched, got.ledger("tasks"))
			continue
		}
		apart += checkCPU(t, is, seconds(*own.UsedSecs), "step "+name)
	}
	return apart
}

// checkDeliveredRows delivers all runs: the receiver has the rows that the export shows.
func checkDeliveredRows(t *testing.T, s *site) {
	t.Helper()
	receiver := serve(t, s, s.path("spool"))
	if out, status := s.rtSpool(t, "drain"); status != 0 {
		t.Fatalf("drain ended with %d and printed %q", status, out)
	}
	arrived := map[string]received{}
	for _, run := range receiver.runs(t) {
		arrived[run.Metadata.ExternalRunID] = run
	}
	for _, r := range runs(t, s.path("spool")) {
		there, ok := arrived[r.ExternalID]
		if !ok {
			t.Errorf("%s (%s) did not arrive", r.path, r.ExternalID)
			continue
		}
		checkDelivered(t, receiver, r, there)
		rows, status := s.rtSpool(t, "export", "--format", "csv", r.path)
		if got := string(receiver.get(t, "/runs/"+there.ID+"/data")); status != 0 || got != rows {
			t.Errorf("%s: the receiver has\n%s\nthe export, with status %d, shows\n%s", r.path, got, status, rows)
		}
	}
}
