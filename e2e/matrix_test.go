//go:build e2e

package e2e

import (
	"database/sql"
	"fmt"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// jobCase is a job of the matrix. In its script W is the workload, and T W a workload that
// reports separately.
type jobCase struct {
	name   string
	args   []string
	script string
	cancel bool
	short  bool // also in the short form
	runs   int  // expected: one for each job (array task, het component) and node
	tasks  int  // of step 0 on each node, if each is checked
	exit   int64
	signal int64
	// The accepted outcomes: Slurm's Epilog has 0:0 for several, and only some kernels let
	// the batch script's own status be read after its end.
	outcomes []string
}

var (
	finished  = []string{"finished", "unknown"}
	cancelled = []string{"cancelled", "terminated", "unknown"} // Slurm 22.05 does not pass the time limit to the node
)

// matrix lists the jobs; nodes are the names of two.
func matrix(nodes []string) []jobCase {
	account := "--account=chem"
	return []jobCase{
		{name: "two-steps", short: true, args: []string{"-n1", "--mem=150", account}, runs: 1, outcomes: finished,
			script: `exec T W -- bash -c 'srun -n1 T W --cpu 1.2 --touch 40 && srun -n1 T W --cpu 0.8 --touch 60'`},
		{name: "array", args: []string{"-n1", "--mem=60", "--array=1-3", account}, runs: 3, outcomes: finished,
			script: `exec T W --cpu 1 --touch 12`},
		{name: "two-nodes", short: true, args: []string{"-N2", "--ntasks-per-node=1", "--mem=100", account}, runs: 2, outcomes: finished,
			script: `exec T W -- srun T W --cpu 1.5 --touch 32`},
		{name: "het", args: []string{"-n1", "--mem=100", "-w", nodes[0], account, "--job-name=het", ":", "-n1", "--mem=80", "-w", nodes[1], account, "--job-name=het"},
			runs: 2, outcomes: finished, script: `exec T W -- srun --het-group=0,1 T W --cpu 1 --touch 16`},
		{name: "unequal", args: []string{"-n1", "--mem=150", account}, runs: 1, tasks: 8, outcomes: finished,
			script: `exec T W -- srun -O -n8 ` + unequal},
		// Slurm numbers a task differently in the hierarchies of v1, unless all tasks are
		// on one node.
		{name: "dealt-out", args: []string{"-N2", "--ntasks-per-node=1", "--mem=150", account}, runs: 2, tasks: 4, outcomes: finished,
			script: `exec T W -- srun -O -n8 -m cyclic ` + unequal},
		{name: "exit-7", short: true, args: []string{"-n1", "--mem=60"}, runs: 1, exit: 7, outcomes: []string{"failed"},
			script: `exec T W --cpu 0.5 --exit 7`},
		{name: "scancel", args: []string{"-n1", "--mem=60"}, runs: 1, cancel: true, outcomes: cancelled,
			script: `exec T W --cpu 0.4 --touch 8 --hold 120`},
		{name: "short", short: true, args: []string{"-n1", "--mem=60"}, runs: 1, outcomes: finished,
			script: `exec T W --cpu 0.1 --hold 0.1`},
		// A job that is killed 40 ms after its start may be gone before the tracker has found its step.
		{name: "oom", short: true, args: []string{"-n1", "--mem=60"}, runs: 1, signal: 125, outcomes: []string{"oom"},
			script: `sleep 0.5; exec T W --touch 300`},
	}
}

// unequal is a command in which each task uses more than the previous one.
const unequal = `bash -c 'exec T W --cpu 0.$((SLURM_PROCID + 1)) --touch $((SLURM_PROCID * 2 + 2))'`

// runMatrix submits all jobs, waits for them and compares the spool with what Slurm and the
// jobs' own processes report.
func runMatrix(t *testing.T, c *cluster, s *site, cases []jobCase) {
	ids, ends := make([]int64, len(cases)), make([]map[int64]job, len(cases))
	for i, k := range cases {
		ids[i] = c.start(t, s, k)
		if c.oneByOne {
			ends[i] = c.wait(t, ids[i])
		}
	}
	for i := range cases {
		if ends[i] == nil {
			ends[i] = c.wait(t, ids[i])
		}
	}
	settle(t, s.path("spool"))
	all, want := runs(t, s.path("spool")), 0
	for i, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			want += k.runs
			apart, late := checkCase(t, c, s, k, ends[i], all)
			for try := 1; mayRunAgain(c, try, apart, late); try++ {
				t.Logf("%s%s; running it again", apart, late)
				want += k.runs
				end := c.wait(t, c.start(t, s, k))
				settle(t, s.path("spool"))
				apart, late = checkCase(t, c, s, k, end, runs(t, s.path("spool")))
			}
			if late != "" {
				t.Errorf("the ledger reports each time: %s", late)
			}
			if apart != "" {
				t.Error(apart)
			}
		})
	}
	t.Run("nothing-else", func(t *testing.T) {
		if all := runs(t, s.path("spool")); len(all) != want {
			t.Errorf("%d runs in the spool, want %d: %s", len(all), want, describe(all))
		}
		c.healthy(t)
		for _, line := range s.logLines(t) {
			t.Errorf("unexpected log line: %s", line)
		}
	})
}

// start submits a job of the matrix, and cancels it if the case says so.
func (c *cluster) start(t *testing.T, s *site, k jobCase) int64 {
	t.Helper()
	report := "env RT_TRUTH=" + s.path("truth")
	script := strings.NewReplacer("T W", report+" "+s.workload(), "W", s.workload()).Replace(k.script)
	args := k.args
	if !strings.Contains(strings.Join(args, " "), "--job-name") {
		args = append([]string{"--job-name=" + k.name}, args...)
	}
	n := c.submit(t, s, script, args...)
	if k.cancel {
		id := strconv.FormatInt(n, 10)
		until(t, "job "+id+" to run", func() bool { return c.jobs(t, n)[n]["JobState"] == "RUNNING" })
		until(t, "job "+id+" to have used its CPU time", func() bool { return s.hasUsed(c, t, n, 300*time.Millisecond) })
		c.root(t, "scancel", id)
	}
	return n
}

// hasUsed reports whether the job's tasks have used the given CPU time, from the accounting
// of its processes.
func (s *site) hasUsed(c *cluster, t *testing.T, id int64, atLeast time.Duration) bool {
	t.Helper()
	for _, pid := range pidsOf(t, s.workload(), id) {
		if cpuOf(pid) >= atLeast {
			return true
		}
	}
	return false
}

// expected is one run that must be in the spool.
type expected struct {
	jobID int64
	node  string
	job   job
	truth int64 // the id that the job's processes have
	// byEpilog: the Epilog ends the run, because it runs in the job's cgroup, which never becomes
	// empty before.
	byEpilog bool
	// isReused: an earlier attempt has used the job's cgroup, so that the peak of memory may be unknown.
	isReused bool
}

func expectedRuns(t *testing.T, c *cluster, jobs map[int64]job) []expected {
	var list []expected
	for id, j := range jobs {
		for _, node := range c.nodes {
			if !strings.Contains(","+expandHosts(j["NodeList"])+",", ","+node+",") {
				continue
			}
			e := expected{jobID: id, node: node, job: j, truth: id}
			if j["HetJobId"] != "" {
				e.truth = j.number(t, "HetJobId")
			}
			list = append(list, e)
		}
	}
	return list
}

// expandHosts writes the host lists of two nodes, n1 and n[1-2], with commas.
func expandHosts(list string) string {
	prefix, rest, ok := strings.Cut(list, "[")
	if !ok {
		return list
	}
	var names []string
	for _, part := range strings.FieldsFunc(strings.TrimSuffix(rest, "]"), func(c rune) bool { return c == ',' || c == '-' }) {
		names = append(names, prefix+part)
	}
	return strings.Join(names, ",")
}

// checkCase returns two messages. apart: a run has more CPU time than its job's processes or lacks the step of an OOM
// kill. late is the ledger's message if a task was read too late.
func checkCase(t *testing.T, c *cluster, s *site, k jobCase, jobs map[int64]job, all []spooled) (apart, late string) {
	want := expectedRuns(t, c, jobs)
	if len(want) != k.runs {
		t.Fatalf("Slurm ran it as %d jobs and nodes instead of %d: %v", len(want), k.runs, jobs)
	}
	for _, e := range want {
		var found []spooled
		for _, r := range all {
			if r.JobID == e.jobID && r.Node == e.node {
				found = append(found, r)
			}
		}
		if len(found) != 1 {
			t.Errorf("job %d on %s has %d runs, want 1; the spool holds %s", e.jobID, e.node, len(found), describe(all))
			continue
		}
		checkMetadata(t, c, k, e, found[0])
		isBatchHost := e.job["BatchHost"] == e.node && e.truth == e.jobID // the leader of a het job runs the script
		checkEnd(t, k, found[0], c.knowsExit && isBatchHost)
		if k.tasks > 0 {
			high, unread := checkTasks(t, s.truthOf(t, e.truth, e.node), found[0], k.tasks)
			apart, late = apart+high, late+unread
			// With v2 the directories that slurmstepd leaves are rows with almost no usage.
			if n := query(t, found[0].path, "SELECT count(DISTINCT task) FROM step_reading WHERE step = '0'"); n != strconv.Itoa(k.tasks) && !c.oneByOne {
				t.Errorf("%s: %s tasks are recorded, want %d", found[0].path, n, k.tasks)
			}
		}
		if k.name == "oom" {
			apart += checkKill(t, found[0])
		}
		apart += checkFigures(t, s, e, found[0])
	}
	return apart, late
}

// checkKill returns a message if the ledger does not have one OOM kill with its step. A virtual machine may stop
// between the kill and the end of the step. Then the count of the step is gone before its reading, and the job may
// run again, see cluster.tries.
func checkKill(t *testing.T, r spooled) string {
	t.Helper()
	const kills = " FROM event WHERE name = 'oom_kill'"
	if query(t, r.path, "SELECT count(*)"+kills+" AND detail LIKE '%in step batch%limit_bytes=%'") == "1" {
		return ""
	}
	return fmt.Sprintf("%s: the ledger has these OOM kills, want one in step batch: %q\n", r.path, query(t, r.path, "SELECT group_concat(detail, '; ')"+kills))
}

func checkMetadata(t *testing.T, c *cluster, k jobCase, e expected, r spooled) {
	t.Helper()
	u, err := user.Lookup(c.user)
	if err != nil {
		t.Fatal(err)
	}
	account := e.job["Account"]
	if account == "(null)" {
		account = ""
	}
	for _, v := range []struct{ what, got, want string }{
		{"cluster", r.Cluster, c.name}, {"job_name", r.JobName, k.name}, {"user", r.User, c.user},
		{"uid", fmt.Sprint(r.UID), u.Uid}, {"account", r.Account, account}, {"partition", r.Partition, c.partition},
		{"node_list", r.NodeList, e.job["NodeList"]}, {"num_nodes", fmt.Sprint(r.NumNodes), e.job["NumNodes"]},
		{"array_job_id", null(r.ArrayJob), ifLast(e, e.job["ArrayJobId"])}, {"array_task_id", null(r.ArrayTask), ifLast(e, e.job["ArrayTaskId"])},
		{"het_job_id", null(r.HetJob), e.job["HetJobId"]}, {"het_job_offset", null(r.HetOffset), e.job["HetJobOffset"]},
	} {
		isTooShort := k.name == "short" && v.what == "job_name" && v.got == "" // to read the environment of a task, see rt-tracker(8)
		if v.got != v.want && !isTooShort {
			t.Errorf("job %d on %s: %s is %q, want %q", e.jobID, e.node, v.what, v.got, v.want)
		}
	}
	name, sluid := "job_"+fmt.Sprint(e.jobID), query(t, r.path, "SELECT sluid FROM run")
	if c.bySLUID {
		name = sluid
	}
	if path := query(t, r.path, "SELECT cgroup_path FROM run"); name == "" || !strings.HasSuffix(path, "/"+name) {
		t.Errorf("job %d on %s: cgroup_path is %q, the SLUID %q", e.jobID, e.node, path, sluid)
	}
	if !strings.HasPrefix(r.ExternalID, c.name+":") || !strings.Contains(r.ExternalID, "@"+e.node+"#") {
		t.Errorf("job %d on %s: external_run_id is %q", e.jobID, e.node, r.ExternalID)
	}
}

// ifLast returns value for the last task of an array, which has the array's own id. Without
// accounting nothing on the node proves the ids of the other tasks.
func ifLast(e expected, value string) string {
	if e.job["ArrayJobId"] == fmt.Sprint(e.jobID) {
		return value
	}
	return ""
}

// query returns the single value of a query of a spool file.
func query(t *testing.T, path, text string) string {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var v sql.NullString
	if err := db.QueryRow(text).Scan(&v); err != nil {
		t.Fatalf("%s: %s: %v", path, text, err)
	}
	return v.String
}

func null(n sql.NullInt64) string {
	if !n.Valid {
		return ""
	}
	return strconv.FormatInt(n.Int64, 10)
}

// checkEnd checks the end of a run. knowsExit: the node had the batch script, and its kernel reports
// the script's exit.
func checkEnd(t *testing.T, k jobCase, r spooled, knowsExit bool) {
	t.Helper()
	if r.State != "ended" {
		t.Errorf("%s: state is %q, want ended", r.path, r.State)
	}
	right := false
	for _, o := range k.outcomes {
		isExpected := o != "unknown" || !knowsExit
		isIt := isExpected && r.Outcome == o
		right = right || isIt
	}
	if !right {
		t.Errorf("%s: outcome is %q (source %q), want one of %q", r.path, r.Outcome, r.Source, k.outcomes)
	}
	if null(r.ExitCode) != fmt.Sprint(k.exit) || null(r.ExitSignal) != fmt.Sprint(k.signal) {
		t.Errorf("%s: exit is %s:%s, want %d:%d", r.path, null(r.ExitCode), null(r.ExitSignal), k.exit, k.signal)
	}
}

// checkTasks compares every task of step 0 with its own report. The task is in the run, and its end is in one
// snapshot. Its memory peak is at least what it touched, and its CPU time is not too low. If that is too high,
// checkTasks returns a message. If it is too low because the directories of the step were gone before the task was
// read, it returns the ledger's message.
func checkTasks(t *testing.T, is truth, r spooled, want int) (apart, late string) {
	t.Helper()
	if len(is.tasks) != want {
		t.Errorf("%d tasks have reported, want %d", len(is.tasks), want)
	}
	n, err := strconv.Atoi(query(t, r.path, "SELECT count(DISTINCT task) FROM step_reading WHERE step = '0' AND cpu_usage_us > 50000"))
	// A virtual machine may charge work of its host to a task's leftover directory.
	if err != nil || n < want || n > want && !is.virtual {
		t.Errorf("%s: %d tasks have used CPU time instead of %d: %v", r.path, n, want, err)
	}
	for task, is := range is.tasks {
		of := " FROM step_reading WHERE step = '0' AND task = " + task
		if ends := query(t, r.path, "SELECT count(*)"+of+" AND ended = 1"); ends != "1" {
			t.Errorf("%s: task %s has ended in %s snapshots", r.path, task, ends)
		}
		if peak := query(t, r.path, "SELECT max(mem_peak_kib) * 1024 >= "+fmt.Sprint(is.touched)+of); peak != "1" {
			t.Errorf("%s: task %s touched %d bytes; memory peak is at least that: %q", r.path, task, is.touched, peak)
		}
		us, err := strconv.ParseInt(query(t, r.path, "SELECT ifnull(max(cpu_usage_us), -1)"+of), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		got := time.Duration(us) * time.Microsecond
		t.Logf("task %s: CPU %v of %v (%v before it began)", task, got, is.cpu, is.began)
		if _, isLow := is.disagrees(got); isLow {
			unread := unreadTask(t, r.path, task)
			if unread != "" {
				late += unread + "\n"
				continue
			}
			t.Logf("the ledger has: %s", query(t, r.path, "SELECT group_concat(name || ' ' || status || ' ' || detail, '; ') FROM event WHERE kind = 'job'"))
		}
		apart += checkCPU(t, is, got, r.path+": task "+task)
	}
	return apart, late
}

// unreadTask returns the ledger's message that a task of step 0 was not read at its end, empty if
// there is none.
func unreadTask(t *testing.T, path, task string) string {
	t.Helper()
	detail := query(t, path, "SELECT group_concat(detail, '; ') FROM event WHERE kind = 'job' AND name = 'tasks' AND detail LIKE 'the end of task % of step 0 was not read;%'")
	names, _, _ := strings.Cut(strings.TrimPrefix(detail, "the end of task "), " ")
	if !slices.Contains(strings.Split(names, ","), task) {
		return ""
	}
	return detail
}

// checkCPU fails the test if CPU time was lost. It returns a message if there is too much,
// see cluster.tries.
func checkCPU(t *testing.T, is truth, got time.Duration, what string) (apart string) {
	t.Helper()
	high, low := is.disagrees(got)
	text := fmt.Sprintf("%s: CPU time %v, the processes say %v, %v of it before they began\n", what, got, is.cpu, is.began)
	if low {
		t.Error(text)
	}
	if high {
		return text
	}
	return ""
}

// checkFigures checks the memory peak, which is at least the memory that was touched, the order of the readings, and
// the CPU time. The CPU time may be at most 0.5 % or 50 ms below getrusage(2). If it is higher by more than that,
// checkFigures returns a message.
func checkFigures(t *testing.T, s *site, e expected, r spooled) (apart string) {
	t.Helper()
	is := s.truthOf(t, e.truth, e.node)
	if is.reports == 0 {
		t.Errorf("job %d on %s: its processes have reported nothing", e.jobID, e.node)
		return ""
	}
	isPeakKnown := r.peakKiB.Valid || !e.isReused
	isPeakMissing := isPeakKnown && !r.peakKiB.Valid
	if !r.cpu.Valid || isPeakMissing {
		t.Errorf("%s: the job's cgroup was never read (%d snapshots)", r.path, r.snapshots)
		return ""
	}
	got := time.Duration(r.cpu.Int64) * time.Microsecond
	_, isLow := is.disagrees(got)
	noted := query(t, r.path, "SELECT group_concat(detail, '; ') FROM event WHERE status = 'estimated'")
	if isLow && is.virtual && noted != "" { // its one CPU was too slow for the last reading of a step, and the ledger says so
		t.Logf("%s: CPU time %v, the processes say %v; the ledger: %s", r.path, got, is.cpu, noted)
	} else {
		apart = checkCPU(t, is, got, r.path)
	}
	if peak := r.peakKiB.Int64 * 1024; isPeakKnown && peak < is.touched {
		t.Errorf("%s: memory peak %d, the processes touched %d", r.path, peak, is.touched)
	}
	ending := r.ending
	// Slurm may leave the job's cgroup behind, mostly on a slow node.
	isLeft := exists(filepath.Join("/sys/fs/cgroup", strings.TrimPrefix(query(t, r.path, "SELECT cgroup_path FROM run"), "/sys/fs/cgroup")))
	// Or, on the machine's one CPU, a process of the job still ends when the tracker no longer waits after the
	// Epilog's signal.
	isOccupied := is.virtual && query(t, r.path, "SELECT count(*) FROM snapshot WHERE reason = 4 AND job_pids > 0") != "0"
	if e.byEpilog || isLeft || isOccupied {
		ending += r.stopping
	}
	if r.firstReason != 1 || ending != 1 {
		t.Errorf("%s: the first reading has the reason %d, and %d readings are last ones, %d at a stop", r.path, r.firstReason, r.ending, r.stopping)
	}
	t.Logf("job %d on %s: %d snapshots, CPU %v of %v (%v before they began), peak %d of %d KiB", e.jobID, e.node, r.snapshots, got, is.cpu, is.began, r.peakKiB.Int64, is.touched/1024)
	return apart
}
