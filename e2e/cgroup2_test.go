//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/e2e/random"
)

// guestVar marks the copy of a test that runs inside the machine; its value is the Debian suite.
const guestVar = "RT_E2E_GUEST"

// allVar makes the tests of TestCgroupV2 run all jobs on each version of Slurm, as contrib/test/slurm.
const allVar = "RT_E2E_SLURM"

// version is a Debian suite with its Slurm, its C library and its User Mode Linux.
type version struct {
	slurm, suite string
	runsInJob    bool // PrologFlags=RunInJob exists, Slurm 24.05
	byRank       bool // see site
	bySLUID      bool // see cluster
	knowsExit    bool
	hasDBD       bool // its image has slurmdbd and MariaDB; TestSlurmdbd runs on the oldest version
}

var versions = []version{
	{slurm: "22.05", suite: "bookworm"},
	{slurm: "24.11", suite: "trixie", runsInJob: true, byRank: true},
	{slurm: "26.05", suite: "sid", runsInJob: true, byRank: true, bySLUID: true, knowsExit: true, hasDBD: true},
}

// isAll reports whether a test runs all jobs on a version, not only a short form.
func (v version) isAll() bool { return os.Getenv(allVar) != "" }

func (v version) isOldest() bool { return v == versions[0] }

// TestCgroupV2 runs jobs, faults, the lifecycle of jobs and the tests of the kernel's files on each version of Slurm.
// The machine has two nodes and only cgroup v2. A copy of the test runs there; the spool is copied back and drained
// here, as on a site where the nodes have no network.
func TestCgroupV2(t *testing.T) {
	if suite := os.Getenv(guestVar); suite != "" {
		for _, v := range versions {
			if v.suite == suite {
				inGuest(t, v)
			}
		}
		return
	}
	for _, v := range versions {
		t.Run(v.slurm, func(t *testing.T) {
			s := newSite(t, workDir(t))
			share := shareWithGuest(t, s)
			for _, p := range kernelTests {
				command(t, "go", "test", "-c", "-o", filepath.Join(share, p.program), p.dir)
			}
			out, err := inMachine(v.suite, "slurm-run", share, "./e2e.test", "-test.run", "^TestCgroupV2$", "-test.v", "-test.timeout", "55m").CombinedOutput()
			t.Logf("%s", out)
			replay(t, out)
			if err != nil {
				t.Fatalf("cg2-vm: %v", err)
			}
			t.Run("drain", func(t *testing.T) { runDrain(t, s, filepath.Join(share, "spool")) })
		})
	}
}

// inMachine prepares a command in the virtual machine of contrib/lab/cg2-vm, which has Slurm and the
// kernel of a Debian suite. That machine has no steal time: it charges other work of its host to the
// process that runs. So it gets a high priority where that is permitted.
func inMachine(suite, mode, share string, args ...string) *exec.Cmd {
	cmd := exec.Command("nice", append([]string{"-n", "-15", "../contrib/lab/cg2-vm", mode, "--share", share,
		"--env", guestVar + "=" + suite, "--env", allVar + "=" + os.Getenv(allVar), "--env", "RT_SEED=" + os.Getenv("RT_SEED"), "--env", "RT_BIN=/mnt/share/bin", "--"}, args...)...)
	cmd.Env = append(cmd.Environ(), "CG2_SUITE="+suite, "CG2_NODES=2", "CG2_TIMEOUT=3600")
	if os.Getenv("CG2_CACHE") == "" {
		cmd.Env = append(cmd.Env, "CG2_CACHE=/var/cache/cg2-vm")
	}
	return cmd
}

// shareWithGuest makes the directory that the machine sees: this test, the programs,
// and the hooks.
func shareWithGuest(t *testing.T, s *site) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	share := s.path("share")
	for _, d := range []string{"bin", "spool", "hooks"} {
		if err := os.MkdirAll(filepath.Join(share, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	copyFile(t, self, filepath.Join(share, "e2e.test"))
	for _, p := range append([]string{"workload"}, programs...) {
		copyFile(t, s.path("bin", p), filepath.Join(share, "bin", p))
	}
	for _, hook := range []string{"prolog", "epilog"} {
		copyFile(t, filepath.Join("../contrib/slurm/hooks", hook), filepath.Join(share, "hooks", hook))
		text := "#!/bin/sh\nexec /opt/rt/" + hook + "\n"
		if err := os.WriteFile(filepath.Join(share, hook), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return share
}

var result = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): Test[^/\s]+/(\S+/\S+)`)

// replay reports the results of the tests in the machine as tests of this run.
func replay(t *testing.T, output []byte) {
	results := result.FindAllSubmatch(output, -1)
	if len(results) == 0 {
		t.Errorf("no test ran inside the machine")
	}
	for _, m := range results {
		t.Run(string(m[2]), func(t *testing.T) {
			if bytes.Equal(m[1], []byte("PASS")) {
				return
			}
			for _, message := range messagesOf(string(m[2]), output) {
				t.Log(message)
			}
			t.Errorf("%s failed in the machine, see its output", m[1])
		})
	}
}

var message = regexp.MustCompile(`^ +[a-z0-9_]+_test\.go:[0-9]+: `)

// messagesOf returns the first lines of the messages of a test that ran in the machine, named without its top-level
// test. testsum prints only some messages of a test, and all messages in the machine are too many.
func messagesOf(name string, output []byte) (messages []string) {
	isIts := false
	for line := range strings.Lines(string(output)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "===" {
			_, running, _ := strings.Cut(fields[2], "/")
			isIts = running == name
		}
		if isIts && message.MatchString(line) {
			messages = append(messages, strings.TrimSpace(line))
		}
	}
	return messages
}

// The messages of a test in the machine are the lines after its name, without its subtests.
func TestMessagesOf(t *testing.T) {
	const output = `=== RUN   TestCgroupV2/lifecycle/requeue
    lifecycle_test.go:115: job 6 on n1: 9 snapshots
        and more
=== RUN   TestCgroupV2/lifecycle/requeue/sub
    lifecycle_test.go:117: of another
=== NAME  TestCgroupV2/lifecycle/requeue
    lifecycle_test.go:116: it is late
--- FAIL: TestCgroupV2/lifecycle/requeue (1.00s)
`
	want := []string{"lifecycle_test.go:115: job 6 on n1: 9 snapshots", "lifecycle_test.go:116: it is late"}
	if got := messagesOf("lifecycle/requeue", []byte(output)); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// guest is the installation in the machine: Slurm is up, and its hooks use /opt/rt.
func guest(t *testing.T) (*cluster, *site) {
	t.Helper()
	s := newSite(t, "/opt/rt")
	// The machine is slow, and charges a tracker for time in which the host's CPU did other
	// work.
	s.base = map[string]string{"tracker.first_interval": `"1s"`, "tracker.interval": `"2s"`, "tracker.budget_cpu": "20.0"}
	s.configure(nil)
	return &cluster{
		name: "cg2", partition: "main", user: "tester", nodes: []string{"n1", "n2"},
		asUser: []string{"setpriv", "--reuid=tester", "--regid=tester", "--init-groups", "--"}, oneByOne: true, tries: 5,
		slurmd: guestSlurmd, replace: replacePrograms,
	}, s
}

// guestSlurmd stops or starts a slurmd of the machine.
func guestSlurmd(t *testing.T, verb, node string) {
	t.Helper()
	unit := "slurmd-" + node
	switch verb {
	case "start":
		command(t, "cg2-slurmd", node)
	case "stop":
		command(t, "systemctl", "stop", unit)
	case "kill": // a tracker is in the same cgroup
		command(t, "systemctl", "kill", "--signal=KILL", "--kill-whom=main", unit)
		until(t, unit+" to be dead", func() bool { return exec.Command("systemctl", "-q", "is-failed", unit).Run() == nil })
	}
}

// replacePrograms replaces slurmd and slurmstepd by copies, as a package does. Running ones keep
// their deleted files.
func replacePrograms(t *testing.T) {
	t.Helper()
	for _, name := range []string{"slurmd", "slurmstepd"} {
		path, err := filepath.EvalSymlinks("/usr/sbin/" + name)
		if err != nil {
			t.Fatal(err)
		}
		command(t, "cp", "-p", path, path+".new")
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}

// kernelTests are tests of other packages that need cgroup v2 or a new kernel.
var kernelTests = []struct {
	dir, program, pattern string
	passed                int
	onNew                 bool // only on a kernel that reports the exit of a process and resets memory.peak
}{
	{"../collect/cgroup", "cgroup.test", "^TestKernel.*V2$", 2, false},
	{"../collect/cgroup", "interval_peak.test", "^TestKernelIntervalPeak$", 1, true},
	{"../collect/proc", "proc.test", "^TestExitStatus$", 1, true},
}

// inGuest is the test as it runs in the machine.
func inGuest(t *testing.T, v version) {
	c, s := guest(t)
	c.bySLUID, c.knowsExit, s.byRank = v.bySLUID, v.knowsExit, v.byRank
	if slurm := slurmVersion(t); !strings.HasPrefix(slurm, v.slurm+".") {
		t.Errorf("Slurm is %q, want %s", slurm, v.slurm)
	}
	printVersions(t, v, "v2")
	isShort := !v.isAll()
	cases, bad := matrix(c.nodes), faults
	if isShort {
		n := random.Below(t, len(faults))
		cases, bad = slices.DeleteFunc(cases, func(k jobCase) bool { return !k.short }), faults[n:n+1]
	}
	t.Run("matrix", func(t *testing.T) { runMatrix(t, c, s, cases) })
	files, err := filepath.Glob(s.path("spool", "*.db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		copyFile(t, f, filepath.Join("/mnt/share/spool", filepath.Base(f)))
	}
	t.Run("kernel", func(t *testing.T) { runKernelTests(t, v) })
	if !isShort {
		t.Run("bytes", func(t *testing.T) { runBytes(t, c, s) })
	}
	t.Run("lifecycle", func(t *testing.T) {
		if !isShort {
			runLifecycle(t, c, s)
			return
		}
		t.Run("requeue", func(t *testing.T) { runRequeue(t, c, s) })
		t.Run("restarts", func(t *testing.T) { runSlurmdRestarts(t, c, s) })
		checkLifecycle(t, c, s)
	})
	if v.runsInJob {
		t.Run("run-in-job", func(t *testing.T) { runInJob(t, c, s) })
	}
	t.Run("faults", func(t *testing.T) { runFaults(t, c, s, bad) })
	if v.hasDBD {
		t.Run("accounting", func(t *testing.T) { // replay reports subtests
			startAccounting(t, c, s)
			t.Run("names", func(t *testing.T) { runNames(t, c, s) })
			t.Run("jobstats", func(t *testing.T) {
				s.configure(map[string]string{"drain.sacct": fmt.Sprintf("%q", s.path("sacct"))})
				burner := c.submit(t, s, "srun -n1 "+s.workload()+" --cpu 1 --touch 40 --hold 2", "-n1", "--mem=100", "-w", c.nodes[0], "-J", "burner")
				c.wait(t, burner)
				checkAdminComment(t, s, false)
			})
		})
	}
	if isClock := v.isAll() || v.isOldest(); isClock { // last, because Slurm's credentials and queue depend on the clock
		s.configure(nil)
		t.Run("clock", func(t *testing.T) { // replay reports subtests
			t.Run("steps", func(t *testing.T) { runClock(t, c, s) })
		})
	}
}

// slurmVersion is the version of the slurmd of this machine, such as 22.05.8.
func slurmVersion(t *testing.T) string {
	t.Helper()
	return strings.TrimPrefix(command(t, "/usr/sbin/slurmd", "-V"), "slurm-wlm ")
}

// printVersions prints what the tests run on; testsum repeats it at the end.
func printVersions(t *testing.T, v version, cgroup string) {
	t.Helper()
	fmt.Printf("versions: Slurm %s, cgroup %s, Linux %s, glibc %s (Debian %s)\n", slurmVersion(t), cgroup, command(t, "uname", "-r"),
		command(t, "dpkg-query", "-W", "-f", "${Version}", "libc6"), v.suite)
}

// runKernelTests runs the kernelTests: none may be skipped.
func runKernelTests(t *testing.T, v version) {
	for _, k := range kernelTests {
		isOlder, isRepeated := k.onNew && !v.knowsExit, !k.onNew && !v.isAll() && !v.isOldest()
		if isOlder || isRepeated {
			continue
		}
		t.Run(k.program, func(t *testing.T) {
			out, err := exec.Command("./"+k.program, "-test.run", k.pattern, "-test.v").CombinedOutput()
			t.Logf("%s", out)
			passed, skipped := bytes.Count(out, []byte("--- PASS: Test")), bytes.Count(out, []byte("--- SKIP"))
			if err != nil || passed < k.passed || skipped > 0 {
				t.Errorf("%d tests passed, want %d; %d were skipped; %v", passed, k.passed, skipped, err)
			}
			if k.onNew && bytes.Contains(out, []byte("keeps no exit status")) {
				t.Error("the kernel does not report the exit of a process")
			}
		})
	}
}
