package proc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// startWithChild starts a program that prints the pid of its child, and returns its pipes and the pid.
func startWithChild(t *testing.T, parent *exec.Cmd) (input io.Closer, output *bufio.Reader, child int) {
	t.Helper()
	in, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	output = bufio.NewReader(out)
	line, err := output.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err = strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return in, output, child
}

// startsWriter starts a program that starts a child, and returns both. The child has written 16 MiB and
// its pid, and sleeps. The program ends with its standard input; script is what it does after that.
func startsWriter(t *testing.T, script string) (parent *exec.Cmd, input io.Closer, output *bufio.Reader, child int) {
	t.Helper()
	dir, err := os.MkdirTemp(".", "written-") // the temporary directory may be in memory, which counts no bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "file")
	parent = exec.Command("perl", "-e", `$|=1; $c=fork; if(!$c){open F,">",$ARGV[0]; print F "x"x(16<<20); close F; print "$$\n"; close STDOUT; close STDIN; sleep 3600} `+script, file)
	input, output, child = startWithChild(t, parent)
	t.Cleanup(func() { _ = unix.Kill(child, unix.SIGKILL) })
	return parent, input, output, child
}

// rest reads until pid was just read because it was due, so that it is kept for some scans.
func (j *jobScans) rest(t *testing.T, pid int) {
	t.Helper()
	for range 2 * keepScans {
		j.read(t, rt.ReasonTick)
	}
	for (pid+j.scans)%keepScans != 1 {
		j.read(t, rt.ReasonTick)
	}
}

// adoptOrphans makes this process the new parent of its descendants when their parent ends.
func adoptOrphans(t *testing.T) {
	t.Helper()
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if errors.Is(err, unix.EINVAL) {
		t.Skip("this emulator has no PR_SET_CHILD_SUBREAPER")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
}

// endAdopted ends a process of startsWriter, waits for it, and checks that its bytes are not counted twice.
func (j *jobScans) endAdopted(t *testing.T, child int) {
	t.Helper()
	before := j.s.Job.ProcWriteBytes.Or(0)
	err := unix.Kill(child, unix.SIGKILL)
	if err == nil {
		_, err = unix.Wait4(child, nil, 0, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		j.read(t, rt.ReasonTick)
	}
	j.read(t, rt.ReasonLast)
	after := j.s.Job.ProcWriteBytes.Or(0)
	if before < 16<<20 || after > before+1<<20 {
		t.Errorf("%d bytes written before the end of the child, %d after", before, after)
	}
}

// The parent of a process ends and stays as a zombie. The process gets another parent at once, without
// running, and its bytes go there.
func TestIdleChildOfAZombie(t *testing.T) {
	adoptOrphans(t)
	parent, input, _, child := startsWriter(t, `<STDIN>; exit`)
	j := &jobScans{JobProcs: NewJobProcs(NewFS("/proc", "/sys"), pidList{os.Getpid(), parent.Process.Pid, child}, 0)}
	defer j.Close()
	j.read(t, rt.ReasonFirst)
	j.rest(t, child)
	_ = input.Close()
	if err := unix.Waitid(unix.P_PID, parent.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil { // it is a zombie
		t.Fatal(err)
	}
	j.read(t, rt.ReasonTick)
	j.read(t, rt.ReasonTick)
	j.endAdopted(t, child)
	_ = parent.Wait()
}

// A scan finds a process before its parent, and keeps it when the parent ends. The next scan reads it.
func TestIdleChildBeforeItsParent(t *testing.T) {
	adoptOrphans(t)
	parent, input, _, child := startsWriter(t, `<STDIN>; exit`)
	j := &jobScans{JobProcs: NewJobProcs(NewFS("/proc", "/sys"), pidList{os.Getpid(), child}, 0)}
	defer j.Close()
	j.read(t, rt.ReasonFirst)
	j.list = pidList{os.Getpid(), child, parent.Process.Pid}
	j.read(t, rt.ReasonTick)
	j.rest(t, child)
	_ = input.Close()
	_ = parent.Wait()
	j.read(t, rt.ReasonTick)
	j.read(t, rt.ReasonTick)
	j.endAdopted(t, child)
}

// A process has waited for its child, and its CPU clock does not show that yet.
func TestIdleParentWithALateClock(t *testing.T) {
	parent, input, output, child := startsWriter(t, `waitpid($c,0); print "x"; close STDOUT; <STDIN>`)
	defer func() { _ = input.Close(); _ = parent.Wait() }()
	j := &jobScans{JobProcs: NewJobProcs(NewFS("/proc", "/sys"), pidList{parent.Process.Pid, child}, 0)}
	defer j.Close()
	j.read(t, rt.ReasonFirst)
	j.rest(t, parent.Process.Pid)
	before := j.s.Job.ProcWriteBytes.Or(0)
	_ = unix.Kill(child, unix.SIGKILL)
	if _, err := output.ReadByte(); err != nil { // it has waited
		t.Fatal(err)
	}
	isLate := func() {
		p := &j.procs[j.at[parent.Process.Pid]]
		p.ranFor, p.idle = cpuClock(p.pid), 0
	}
	isLate()
	j.read(t, rt.ReasonTick)
	isLate()
	j.read(t, rt.ReasonTick)
	j.procs[j.at[parent.Process.Pid]].ranFor = 1
	j.read(t, rt.ReasonTick)
	j.read(t, rt.ReasonLast)
	if after := j.s.Job.ProcWriteBytes.Or(0); before < 16<<20 || after > before+1<<20 {
		t.Errorf("%d bytes written before the end of the child, %d after", before, after)
	}
}

// The pids of another PID namespace say nothing about the processes with these pids here.
func TestIdleInAnotherNamespace(t *testing.T) {
	pid := startIdle(t).cmd.Process.Pid
	root := t.TempDir()
	dir := filepath.Join(root, strconv.Itoa(pid))
	put := func(n int) {
		t.Helper()
		for name, text := range map[string]string{
			"stat":   fmt.Sprintf("%d (app) S 1 1 1 0 -1 0 0 0 0 0 %d 0 0 0 20 0 1 0 500 0 10 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", pid, n*100),
			"io":     "read_bytes: 0\nwrite_bytes: 0\n",
			"status": fmt.Sprintf("Name:\tapp\nvoluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t0\n", n),
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	put(1)
	j := &jobScans{JobProcs: NewJobProcs(NewFS(root, "/sys"), pidList{pid}, 0)}
	defer j.Close()
	j.read(t, rt.ReasonFirst)
	const last = 50
	for i := 2; i <= last; i++ {
		put(i)
		j.read(t, rt.ReasonTick)
	}
	j.read(t, rt.ReasonLast)
	if got := j.s.Job.VoluntarySwitches.Or(0); got != last {
		t.Errorf("%d switches, want %d", got, last)
	}
}
