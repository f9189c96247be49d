package proc

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

type pidList []int

func (l pidList) Procs(dst []int) []int { return append(dst, l...) }

// jobScans scans the processes of a job at each call of read.
type jobScans struct {
	*JobProcs
	s rt.Snapshot
}

func (j *jobScans) read(t *testing.T, why rt.Reason) {
	t.Helper()
	j.s.Reason, j.s.Boot = why, j.s.Boot+int64(time.Hour)
	j.s.Job = rt.JobReading{Phase: rt.JobPresent}
	if err := j.Read(&j.s); err != nil {
		t.Fatal(err)
	}
}

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

// The parent of a process ends and stays as a zombie. The process gets another parent at once, and its bytes go there.
func TestChildOfAZombie(t *testing.T) {
	adoptOrphans(t)
	parent, input, _, child := startsWriter(t, `<STDIN>; exit`)
	j := &jobScans{JobProcs: NewJobProcs(NewFS("/proc", "/sys"), pidList{os.Getpid(), parent.Process.Pid, child}, 0)}
	defer j.Close()
	j.read(t, rt.ReasonFirst)
	_ = input.Close()
	if err := unix.Waitid(unix.P_PID, parent.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil { // it is a zombie
		t.Fatal(err)
	}
	j.read(t, rt.ReasonTick)
	j.read(t, rt.ReasonTick)
	j.endAdopted(t, child)
	_ = parent.Wait()
}

// A scan finds a process before its parent, and the parent ends.
func TestChildBeforeItsParent(t *testing.T) {
	adoptOrphans(t)
	parent, input, _, child := startsWriter(t, `<STDIN>; exit`)
	j := &jobScans{JobProcs: NewJobProcs(NewFS("/proc", "/sys"), pidList{os.Getpid(), child}, 0)}
	defer j.Close()
	j.read(t, rt.ReasonFirst)
	j.list = pidList{os.Getpid(), child, parent.Process.Pid}
	j.read(t, rt.ReasonTick)
	_ = input.Close()
	_ = parent.Wait()
	j.read(t, rt.ReasonTick)
	j.read(t, rt.ReasonTick)
	j.endAdopted(t, child)
}

// A process waits for its child, whose bytes are then its own.
func TestParentWaits(t *testing.T) {
	parent, input, output, child := startsWriter(t, `waitpid($c,0); print "x"; close STDOUT; <STDIN>`)
	defer func() { _ = input.Close(); _ = parent.Wait() }()
	j := &jobScans{JobProcs: NewJobProcs(NewFS("/proc", "/sys"), pidList{parent.Process.Pid, child}, 0)}
	defer j.Close()
	j.read(t, rt.ReasonFirst)
	before := j.s.Job.ProcWriteBytes.Or(0)
	_ = unix.Kill(child, unix.SIGKILL)
	if _, err := output.ReadByte(); err != nil { // it has waited
		t.Fatal(err)
	}
	j.read(t, rt.ReasonTick)
	j.read(t, rt.ReasonLast)
	if after := j.s.Job.ProcWriteBytes.Or(0); before < 16<<20 || after > before+1<<20 {
		t.Errorf("%d bytes written before the end of the child, %d after", before, after)
	}
}
