package proc

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

type pidList []int

func (l pidList) Procs(dst []int) []int { return append(dst, l...) }

// idleProcess is a child that returns each line that it gets.
type idleProcess struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	echo *bufio.Reader
}

func startIdle(t *testing.T) idleProcess {
	t.Helper()
	p := idleProcess{cmd: exec.Command("/bin/cat")}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.echo = in, bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.end)
	return p
}

func (p idleProcess) end() {
	_ = p.in.Close()
	_ = p.cmd.Wait()
}

func (p idleProcess) run(t *testing.T) {
	t.Helper()
	if _, err := p.in.Write([]byte("x\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.echo.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
}

// jobScans scans the processes of a job at each call of tick.
type jobScans struct {
	*JobProcs
	s     rt.Snapshot
	usage rt.Opt[uint64] // of the job's cgroup
}

func (j *jobScans) read(t *testing.T, why rt.Reason) {
	t.Helper()
	j.s.Reason, j.s.Boot = why, j.s.Boot+int64(time.Hour)
	j.s.Job = rt.JobReading{Phase: rt.JobPresent, CPUUsage: j.usage}
	if err := j.Read(&j.s); err != nil {
		t.Fatal(err)
	}
}

// until ticks until the condition is true: the kernel accounts a little later than a process runs.
func (j *jobScans) until(t *testing.T, condition func() bool) {
	t.Helper()
	for j.read(t, rt.ReasonTick); !condition(); {
		j.read(t, rt.ReasonTick)
	}
}

// A process that has not run is not read, and its sums stay. One that has run is read, and so is one in the
// snapshot, and all at a last reading.
func TestIdleProcess(t *testing.T) {
	idle := startIdle(t)
	pid := idle.cmd.Process.Pid
	j := &jobScans{JobProcs: NewJobProcs(NewFS("/proc", "/sys"), pidList{pid}, 0)}
	defer j.Close()
	if !j.hasClock {
		t.Fatal("the kernel counts CPU time by the tick, or /proc shows another PID namespace than that of the test")
	}
	j.read(t, rt.ReasonFirst)
	isKept := func() bool { return len(j.procs) == 1 && j.procs[0].isKept }
	j.until(t, isKept)
	before := j.s.Job

	idle.run(t)
	j.until(t, func() bool {
		return !isKept() && j.s.Job.VoluntarySwitches.Or(0) > before.VoluntarySwitches.Or(0)
	})
	j.until(t, isKept)
	after := j.s.Job
	// Its code may have to be read from the disk when it runs.
	isLower := after.ProcReadBytes.Or(0) < before.ProcReadBytes.Or(0)
	if !after.VoluntarySwitches.Valid() || isLower {
		t.Errorf("an idle process has the sums %v switches, %v bytes read; before %v", after.VoluntarySwitches, after.ProcReadBytes, before.ProcReadBytes)
	}

	j.topSize = 1
	j.read(t, rt.ReasonTick)
	if len(j.s.Procs) != 1 || isKept() {
		t.Errorf("a process in the snapshot is not read: %+v", j.s.Procs)
	}
	j.topSize = 0
	j.until(t, isKept)
	j.read(t, rt.ReasonLast)
	if isKept() {
		t.Error("the last reading leaves out an idle process")
	}

	j.until(t, isKept)
	idle.end()
	j.until(t, func() bool { return len(j.procs) == 0 })
}

// An idle process with a parent that ended gets another one.
func TestIdleOrphan(t *testing.T) {
	parent := exec.Command("/bin/sh", "-c", "sleep 3600 >&- & echo $!; exec cat")
	in, _, child := startWithChild(t, parent)
	p, err := os.FindProcess(child)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Kill() }()

	j := &jobScans{JobProcs: NewJobProcs(NewFS("/proc", "/sys"), pidList{parent.Process.Pid, child}, 0)}
	defer j.Close()
	j.read(t, rt.ReasonFirst)
	last := func() *jobProcess { return &j.procs[len(j.procs)-1] }
	j.until(t, func() bool { return len(j.procs) == 2 && last().isKept })
	if p := last(); p.pid != child || p.ppid != parent.Process.Pid {
		t.Fatalf("process %d has the parent %d, want %d and %d", p.pid, p.ppid, child, parent.Process.Pid)
	}
	_ = in.Close()
	_ = parent.Wait()
	j.read(t, rt.ReasonTick)
	if p := last(); len(j.procs) != 1 || p.pid != child || p.ppid == parent.Process.Pid {
		t.Errorf("after the end of its parent, process %d of %d has the parent %d", p.pid, len(j.procs), p.ppid)
	}
}

// If the processes that ran lately have used all CPU time that the cgroup has counted, the others are not
// asked. If they have used less, or more, all are asked.
func TestRestIdle(t *testing.T) {
	active, rest := startIdle(t), startIdle(t)
	j := &jobScans{JobProcs: NewJobProcs(NewFS("/proc", "/sys"), pidList{active.cmd.Process.Pid, rest.cmd.Process.Pid}, 0)}
	defer j.Close()
	j.usage = rt.Some[uint64](1000)
	of := func(p idleProcess) *jobProcess { return &j.procs[j.at[p.cmd.Process.Pid]] }
	run := func(p idleProcess) (used uint64) {
		p.run(t)
		for used == 0 {
			used = uint64(cpuClock(p.cmd.Process.Pid)-of(p).ranFor) / 1000
		}
		return used
	}
	isSettled := func(p *jobProcess) bool {
		isDueSoon := (p.pid+j.scans)%keepScans >= keepScans-4
		return p.isKept && !j.isActive(p) && !isDueSoon
	}
	settle := func() {
		j.until(t, func() bool {
			return len(j.procs) == 2 && isSettled(of(active)) && isSettled(of(rest))
		})
	}
	j.read(t, rt.ReasonFirst)
	settle()

	run(rest)
	j.read(t, rt.ReasonTick)
	if !of(rest).isKept {
		t.Error("a process was asked although the cgroup has counted no CPU time")
	}
	j.usage.Set(j.usage.Or(0) + 1000)
	j.read(t, rt.ReasonTick)
	if of(rest).isKept {
		t.Error("no process was asked although the cgroup has counted a millisecond")
	}
	j.usage.Clear()
	run(rest)
	j.read(t, rt.ReasonTick)
	if of(rest).isKept {
		t.Error("no process was asked although the CPU time of the cgroup is not known")
	}

	j.usage.Set(2000)
	// The active process may run a moment longer than until its answer: then the two differ, and all are asked.
	for try := 1; ; try++ {
		settle()
		run(active)
		j.usage.Set(j.usage.Or(0) + 1000)
		j.read(t, rt.ReasonTick)
		if of(active).isKept {
			t.Fatal("the process is not active")
		}
		used := run(active)
		run(rest)
		j.usage.Set(j.usage.Or(0) + used)
		j.read(t, rt.ReasonTick)
		if of(rest).isKept && !of(active).isKept {
			break
		}
		if try == 1000 {
			t.Fatal("the active process has used all CPU time, and the other one is asked")
		}
	}
	used := run(active)
	j.usage.Set(j.usage.Or(0) + used + 1000)
	j.read(t, rt.ReasonTick)
	if of(rest).isKept {
		t.Error("no process was asked although the active one has not used all CPU time")
	}
}
