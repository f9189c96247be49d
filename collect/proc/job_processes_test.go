package proc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/iotest"
	"github.com/resource-tracker/rt/slurm/environ"
)

// crowd is a fixture of a job's processes. Bytes written are always twice those read.
type crowd struct {
	t    *testing.T
	root FS
	pids []int
}

func newCrowd(t *testing.T) *crowd {
	dir := t.TempDir()
	return &crowd{t: t, root: NewFS(filepath.Join(dir, "proc"), dir)}
}

func (c *crowd) Procs(dst []int) []int { return append(dst, c.pids...) }

// one is a process of the crowd.
type one struct {
	pid, parent, ticks, pages, read, switches int
	comm, cgroup, environ                     string

	own  int    // read by its main thread; of a slurmstepd
	step string // of a slurmstepd
}

func pidIO(read int) string {
	return fmt.Sprintf("rchar: 9\nwchar: 9\nsyscr: 9\nsyscw: 9\nread_bytes: %d\nwrite_bytes: %d\ncancelled_write_bytes: 0\n", read, 2*read)
}

// put makes or changes a process.
func (c *crowd) put(p one) {
	dir := fmt.Sprintf("%s/%d", c.root.Proc, p.pid)
	if p.comm == "" {
		p.comm = "a) b"
	}
	if p.comm != stepd && !slices.Contains(c.pids, p.pid) {
		c.pids = append([]int{p.pid}, c.pids...) // the youngest first: the list has no order
	}
	write(c.t, dir+"/stat", fmt.Sprintf("%d (%s) S %d 1 1 0 -1 4194304 98 0 0 0 %d 1 0 0 20 0 3 0 %d 3133440 %d 18446744073709551615 1 1\n",
		p.pid, p.comm, p.parent, p.ticks, 1000+p.pid, p.pages))
	write(c.t, dir+"/io", pidIO(p.read))
	if p.comm == stepd {
		write(c.t, fmt.Sprintf("%s/task/%d/io", dir, p.pid), pidIO(p.own))
		write(c.t, dir+"/cmdline", fmt.Sprintf("slurmstepd: [7.%s]\x00\x00", p.step))
	}
	write(c.t, dir+"/status", fmt.Sprintf("Name:\tx\nvoluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t%d\n", p.switches, 3*p.switches))
	write(c.t, dir+"/cgroup", p.cgroup)
	write(c.t, dir+"/environ", p.environ)
	write(c.t, dir+"/smaps_rollup", "5600-7ff ---p 00000000 00:00 0 [rollup]\nRss: 100 kB\nPss:                 40 kB\nPss_Dirty: 3 kB\n")
}

// end lets a process end. A held descriptor of a fixture reads on, so it is emptied.
func (c *crowd) end(pid int) {
	c.pids = slices.DeleteFunc(c.pids, func(p int) bool { return p == pid })
	dir := fmt.Sprintf("%s/%d", c.root.Proc, pid)
	write(c.t, dir+"/stat", "")
	write(c.t, dir+"/io", "")
	write(c.t, fmt.Sprintf("%s/task/%d/io", dir, pid), "")
}

// ioSteps are what happens to a job, each with what it has read by then. The
// daemon 50 has read 1000 itself.
var ioSteps = []struct {
	name string
	do   func(c *crowd)
	want uint64
}{
	{"a task", func(c *crowd) {
		c.put(one{pid: 50, parent: 1, read: 1000, own: 1000, comm: stepd})
		c.put(one{pid: 100, parent: 50, read: 10})
	}, 10},
	{"a child and its child", func(c *crowd) {
		c.put(one{pid: 101, parent: 100, read: 5})
		c.put(one{pid: 102, parent: 101, read: 7})
	}, 22},
	{"they work", func(c *crowd) {
		c.put(one{pid: 101, parent: 100, read: 6})
		c.put(one{pid: 102, parent: 101, read: 9})
	}, 25},
	{"the grandchild works on, ends and is collected", func(c *crowd) {
		c.end(102)
		c.put(one{pid: 101, parent: 100, read: 6 + 14})
	}, 30},
	{"a child that was never seen is collected", func(c *crowd) { c.put(one{pid: 100, parent: 50, read: 110}) }, 130},
	{"the child ends and shows late in its parent", func(c *crowd) { c.end(101) }, 130},
	{"now it does", func(c *crowd) { c.put(one{pid: 100, parent: 50, read: 131}) }, 131},
	{"a child that no process waits for", func(c *crowd) { c.put(one{pid: 103, parent: 100, read: 50}) }, 181},
	{"ends", func(c *crowd) { c.end(103) }, 181},
	{"and is counted for ever", func(c *crowd) {}, 181},
	{"what its parent reads later counts in full", func(c *crowd) { c.put(one{pid: 100, parent: 50, read: 141}) }, 191},
	{"a second task, whose parent is a stranger", func(c *crowd) { c.put(one{pid: 200, parent: 1, read: 20}) }, 211},
	{"ends", func(c *crowd) { c.end(200) }, 211},
	{"the first ends, collected by the daemon with more", func(c *crowd) {
		c.end(100)
		c.put(one{pid: 50, parent: 1, read: 1000 + 150, own: 1000, comm: stepd})
	}, 220},
	{"a short task that was never seen", func(c *crowd) { c.put(one{pid: 50, parent: 1, read: 1000 + 170, own: 1000, comm: stepd}) }, 240},
	{"the daemon ends", func(c *crowd) { c.end(50) }, 240},
	{"nothing is left", func(c *crowd) {}, 240},
}

func TestJobProcsBytes(t *testing.T) {
	c := newCrowd(t)
	src := NewJobProcs(c.root, c, 10)
	for _, step := range ioSteps {
		step.do(c)
		s := rt.Snapshot{Reason: rt.ReasonLast, Job: rt.JobReading{Phase: rt.JobPresent}}
		if err := src.Read(&s); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if r, w := s.Job.ProcReadBytes.Or(0), s.Job.ProcWriteBytes.Or(0); r != step.want || w != 2*step.want {
			t.Errorf("%s: %d bytes read and %d written, want %d and %d", step.name, r, w, step.want, 2*step.want)
		}
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

// A step that begins and ends between two walks: whenever its daemon is met, all that
// its tasks have read is there as long as it is read once after their end.
func TestJobProcsShortStep(t *testing.T) {
	for name, tt := range map[string]struct {
		begins, ends []int // the pids that the watcher sees
		late         bool  // the daemon has ended when the step's end is reported
		want         rt.Opt[uint64]
		notes        int
	}{
		"met at its beginning":            {begins: []int{50, 51, 52}, want: u64(640)},
		"met twice":                       {begins: []int{50, 50}, ends: []int{50}, want: u64(640)},
		"met at its end":                  {ends: []int{50}, want: u64(640)},
		"met, and gone before its end":    {begins: []int{50}, late: true, want: u64(0), notes: 1},
		"never met":                       {ends: []int{51}, notes: 1},
		"gone before anything was looked": {late: true, ends: []int{50}, notes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t)
			c.put(one{pid: 50, parent: 1, read: 1000, own: 1000, comm: stepd, step: "3"})
			c.put(one{pid: 51, parent: 1, read: 77, comm: "sshd"})
			c.pids = nil
			src := NewJobProcs(c.root, c, 10)
			src.StepBegins(tt.begins)
			c.put(one{pid: 50, parent: 1, read: 1650, own: 1010, comm: stepd, step: "3"})
			if tt.late {
				c.end(50)
			}
			src.StepEnds("3", tt.ends)
			c.end(50)
			src.StepEnds("3", nil) // its other directories
			for range 2 {
				s := rt.Snapshot{Reason: rt.ReasonLast, Job: rt.JobReading{Phase: rt.JobGone}}
				if err := src.Read(&s); err != nil {
					t.Fatal(err)
				}
				if got := s.Job.ProcReadBytes; got != tt.want {
					t.Errorf("%v bytes, want %v", got, tt.want)
				}
				if s.Job.VoluntarySwitches.Valid() {
					t.Errorf("switches without a process: %v", s.Job.VoluntarySwitches)
				}
			}
			notes := src.Notes()
			if len(notes) != tt.notes || tt.notes > 0 && !strings.Contains(notes[0].Detail, "step 3:") {
				t.Errorf("the ledger has %v", notes)
			}
			if again := src.Notes(); len(again) > 0 {
				t.Errorf("and again %v", again)
			}
			if err := src.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What a daemon had collected when it was met counts once: as its own from then on,
// not also as that of the task that was seen before.
func TestJobProcsMetLate(t *testing.T) {
	c := newCrowd(t)
	c.put(one{pid: 60, parent: 1, read: 3000, own: 1000, comm: stepd})
	c.put(one{pid: 100, parent: 60, read: 10})
	src := NewJobProcs(c.root, c, 10)
	for i, want := range []uint64{10, 2010, 2040, 2040} {
		if i == 2 {
			c.end(100)
			c.put(one{pid: 60, parent: 1, read: 3045, own: 1005, comm: stepd})
		}
		s := rt.Snapshot{Reason: rt.ReasonLast, Job: rt.JobReading{Phase: rt.JobPresent}}
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
		if got := s.Job.ProcReadBytes; got != u64(want) {
			t.Errorf("reading %d: %v bytes, want %d", i, got, want)
		}
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

func TestTitleStep(t *testing.T) {
	for title, want := range map[string]string{
		"slurmstepd: [12.batch]\x00\x00": "batch", "slurmstepd: [12.0]": "0", "slurmstepd: [12.0+1]": "0+1",
		"/usr/sbin/slurmstepd\x00": "", "slurmstepd: [12]": "", "slurmstepd: [12.0": "", "": "",
	} {
		if got := string(titleStep([]byte(title))); got != want {
			t.Errorf("%q is of step %q, want %q", title, got, want)
		}
	}
}

// A task that has not executed its program yet looks like the daemon, which is its parent.
func TestJobProcsTaskBegins(t *testing.T) {
	c := newCrowd(t)
	c.put(one{pid: 50, parent: 1, read: 1000, own: 1000, comm: stepd})
	c.put(one{pid: 100, parent: 50, comm: stepd})
	c.put(one{pid: 101, parent: 2, comm: stepd}) // its parent cannot be seen
	src := NewJobProcs(c.root, c, 10)
	src.StepBegins([]int{50, 100, 101})
	if n := len(src.reapers.list); n != 2 {
		t.Errorf("%d daemons, want 2", n)
	}
	c.put(one{pid: 100, parent: 50, read: 10})
	c.put(one{pid: 101, parent: 2, read: 20})
	read := func(want uint64) {
		t.Helper()
		s := rt.Snapshot{Reason: rt.ReasonLast, Job: rt.JobReading{Phase: rt.JobPresent}}
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
		if got := s.Job.ProcReadBytes; got != u64(want) {
			t.Errorf("%v bytes, want %d", got, want)
		}
	}
	read(30)
	c.end(100)
	c.put(one{pid: 50, parent: 1, read: 1015, own: 1000, comm: stepd})
	read(35)
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

// The daemon waits for the last task and ends before the next reading: its counters were
// read at the step's end.
func TestJobProcsStepEnds(t *testing.T) {
	c := newCrowd(t)
	c.put(one{pid: 50, parent: 1, read: 1000, own: 1000, comm: stepd})
	c.put(one{pid: 100, parent: 50, read: 10, switches: 4})
	src := NewJobProcs(c.root, c, 10)
	s := rt.Snapshot{Job: rt.JobReading{Phase: rt.JobPresent}}
	read := func(want uint64) {
		t.Helper()
		s.Job = rt.JobReading{Phase: rt.JobGone}
		s.Reason = rt.ReasonLast
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
		if got := s.Job.ProcReadBytes.Or(0); got != want {
			t.Errorf("%d bytes, want %d", got, want)
		}
	}
	read(10)
	c.end(100)
	c.put(one{pid: 50, parent: 1, read: 1500, own: 1000, comm: stepd})
	src.StepEnds("0", nil)
	c.end(50)
	src.StepEnds("0", nil)
	read(500)
	read(500)
	if v, i := s.Job.VoluntarySwitches.Or(0), s.Job.InvoluntarySwitches.Or(0); v != 4 || i != 12 {
		t.Errorf("%d and %d switches, want 4 and 12", v, i)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

func TestJobProcsShown(t *testing.T) {
	c := newCrowd(t)
	c.put(one{pid: 50, parent: 1, comm: stepd})
	for i := range 30 {
		p := one{pid: 100 + i, parent: 50, ticks: 0, pages: 1000 - i, read: i, cgroup: fmt.Sprintf("0::/system.slice/n1_slurmstepd.scope/job_1/step_0/user/task_%d\n", i)}
		if i == 29 {
			p.cgroup = "0::/\n"
		}
		c.put(p)
	}
	src := NewJobProcs(c.root, c, 2)
	src.slow.wait = time.Hour
	src.time = func() time.Duration { return 0 }
	s := rt.Snapshot{Boot: 1, Job: rt.JobReading{Phase: rt.JobPresent}}
	read := func() {
		t.Helper()
		s.Job = rt.JobReading{Phase: rt.JobPresent}
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
	}
	read()
	c.put(one{pid: 129, parent: 50, ticks: 900, pages: 3, comm: "busy", environ: "A=1\x00SLURM_STEPID=4294967291\x00SLURM_LOCALID=3\x00"})
	c.put(one{pid: 110, parent: 50, ticks: 1000, pages: 990, comm: "busiest\xff", switches: 1})
	read()
	if len(s.Procs) != 0 || !s.Job.ProcReadBytes.Valid() {
		t.Errorf("a walk before its time: %d processes, %+v", len(s.Procs), s.Job)
	}
	s.Boot += int64(time.Minute)
	read()
	page := uint64(os.Getpagesize())
	want := []rt.ProcessReading{
		{PID: 110, Start: 1110, Comm: "busiest�", Step: "0", Task: u64(10), UserTicks: u64(1000), RSS: u64(990 * page)},
		{PID: 129, Start: 1129, Comm: "busy", Step: "batch", Task: u64(3), UserTicks: u64(900), RSS: u64(3 * page)},
		{PID: 100, Start: 1100, Comm: "a) b", Step: "0", Task: u64(0), UserTicks: u64(0), RSS: u64(1000 * page)},
		{PID: 101, Start: 1101, Comm: "a) b", Step: "0", Task: u64(1), UserTicks: u64(0), RSS: u64(999 * page)},
	}
	for i := range want {
		w := &want[i]
		w.SystemTicks, w.Threads, w.ReadBytes, w.WriteBytes = u64(1), u64(3), u64(0), u64(0)
	}
	want[3].ReadBytes, want[3].WriteBytes = u64(1), u64(2)
	if d := cmp.Diff(want, s.Procs, opts); d != "" {
		t.Errorf("processes (-want +got):\n%s", d)
	}
	s.Boot += int64(time.Hour)
	read()
	if len(s.Procs) != 2 || s.Procs[0].PSS != u64(40<<10) {
		t.Errorf("PSS is not there: %+v", s.Procs)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

// A process that was seen on its way to its task's cgroup is found there later.
func TestJobProcsOnItsWay(t *testing.T) {
	c := newCrowd(t)
	const step = "11:freezer:/slurm/uid_0/job_7/step_3\n"
	c.put(one{pid: 100, parent: 1, pages: 1, cgroup: step})
	c.put(one{pid: 101, parent: 1, pages: 1, cgroup: step})     // a session of ssh: it is in no task
	const task = "2:cpuacct:/slurm/uid_0/job_7/step_3/task_5\n" // memory's is for a while, too
	c.put(one{pid: 102, parent: 1, pages: 1, cgroup: step + task + "4:memory:/slurm/uid_0/job_7/step_3/task_5\n"})
	src := NewJobProcs(c.root, c, 5)
	for i := range maxLooks + 2 {
		s := rt.Snapshot{Reason: rt.ReasonLast, Job: rt.JobReading{Phase: rt.JobPresent}}
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
		for _, p := range s.Procs {
			want := rt.None[uint64]()
			if p.PID == 100 && i > 0 {
				want = u64(2)
			}
			if p.PID == 102 {
				want = u64([]uint64{5, 1}[min(i, 1)])
			}
			if p.Step != "3" || p.Task != want {
				t.Errorf("reading %d: process %d is of step %s, task %v; want %v", i, p.PID, p.Step, p.Task, want)
			}
		}
		c.put(one{pid: 100, parent: 1, pages: 1, cgroup: step + "4:memory:/slurm/uid_0/job_7/step_3/task_2\n"})
		c.put(one{pid: 102, parent: 1, pages: 1, cgroup: step + task + "4:memory:/slurm/uid_0/job_7/step_3/task_1\n"})
		if i >= maxLooks { // it is not read any more
			c.put(one{pid: 101, parent: 1, pages: 1, cgroup: step + "4:memory:/slurm/uid_0/job_7/step_3/task_9\n"})
		}
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

// A walk that costs 20 ms of CPU is followed by 8 s without one.
func TestJobProcsPace(t *testing.T) {
	c := newCrowd(t)
	c.put(one{pid: 100, parent: 1})
	src := NewJobProcs(c.root, c, 1)
	var used time.Duration
	src.time = func() time.Duration { used += 20 * time.Millisecond; return used }
	var walked []int
	for sec := range 20 {
		s := rt.Snapshot{Boot: int64(sec) * 1e9, Job: rt.JobReading{Phase: rt.JobPresent}}
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
		if len(s.Procs) > 0 {
			walked = append(walked, sec)
		}
	}
	if d := cmp.Diff([]int{0, 8, 16}, walked); d != "" {
		t.Errorf("seconds of the walks (-want +got):\n%s", d)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

// A process that hangs delays its PSS, not the reading.
func TestJobProcsHang(t *testing.T) {
	r := pssReader{root: "/proc", wait: 1, start: make(chan struct{}), done: make(chan struct{}, 1)}
	r.timer = time.NewTimer(slowWait)
	release := make(chan struct{})
	go func() { <-r.start; <-release; r.done <- struct{}{} }()
	if !r.free() || r.run() {
		t.Error("a list that hangs is finished")
	}
	if r.free() {
		t.Error("a list that is still in use is free")
	}
	close(release)
	for !r.free() {
	}
	r.close()
}

func TestJobProcsDenied(t *testing.T) {
	c := newCrowd(t)
	c.put(one{pid: 100, parent: 1})
	src := NewJobProcs(c.root, c, 1)
	src.denied = fmt.Errorf("x: %w", fs.ErrPermission)
	s := rt.Snapshot{Boot: 1, Job: rt.JobReading{Phase: rt.JobPresent}}
	src.next = 10
	if err := src.Read(&s); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("between two walks: %v", err)
	}
	s.Job.Phase, s.Boot = rt.JobNone, 20
	if err := src.Read(&s); err != nil || s.Job.VoluntarySwitches.Valid() {
		t.Errorf("where there is no job: %v %+v", err, s.Job)
	}
}

// Real children write known bytes and end.
func TestJobProcsOfThisProcess(t *testing.T) {
	dir := iotest.Dir(t, os.TempDir(), "/var/tmp", ".")
	const mib = 8
	cmd := exec.Command("sh", "-c", fmt.Sprintf(
		"dd if=/dev/zero of=%[1]s/a bs=1M count=%[2]d conv=fsync 2>/dev/null; echo ready; read x; dd if=/dev/zero of=%[1]s/b bs=1M count=%[2]d conv=fsync 2>/dev/null; echo done; read x", dir, mib))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	list := lister{cmd.Process.Pid}
	src := NewJobProcs(NewFS("/proc", "/sys"), &list, 5)
	var s rt.Snapshot
	read := func() uint64 {
		t.Helper()
		s.Job, s.Reason = rt.JobReading{Phase: rt.JobPresent}, rt.ReasonLast
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
		return s.Job.ProcWriteBytes.Or(0) >> 20
	}
	for i, word := range []string{"ready\n", "done\n"} {
		if _, err := io.ReadFull(out, make([]byte, len(word))); err != nil {
			t.Fatal(err)
		}
		if got := read(); got != uint64(mib*(i+1)) {
			t.Errorf("%d MiB written, want %d", got, mib*(i+1))
		}
		if len(s.Procs) != 1 || s.Procs[0].Comm != "sh" {
			t.Errorf("processes: %+v", s.Procs)
		}
		if n := testing.AllocsPerRun(20, func() { read() }); n != 0 {
			t.Errorf("a walk makes %v allocations", n)
		}
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	list = nil
	if got := read(); got != 2*mib || len(s.Procs) != 0 {
		t.Errorf("at the end %d MiB written, %d processes", got, len(s.Procs))
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

type lister []int

func (l *lister) Procs(dst []int) []int { return append(dst, *l...) }

// BenchmarkJobProcs walks real processes.
func BenchmarkJobProcs(b *testing.B) {
	for _, n := range []int{5, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var list lister
			for range n {
				cmd := exec.Command("sleep", "1000")
				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
				list = append(list, cmd.Process.Pid)
			}
			src := NewJobProcs(NewFS("/proc", "/sys"), &list, 10)
			s := rt.Snapshot{Reason: rt.ReasonLast}
			s.Job.Phase = rt.JobPresent
			b.ReportAllocs()
			for b.Loop() {
				s.Boot++
				if err := src.Read(&s); err != nil {
					b.Fatal(err)
				}
			}
			if err := src.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}

func TestTopN(t *testing.T) {
	var r topN
	for i, v := range []uint64{3, 9, 1, 9, 7, 0, 8} {
		r.offer(i, v, 3)
	}
	if d := cmp.Diff([]int{1, 3, 6}, r.at); d != "" {
		t.Errorf("the largest (-want +got):\n%s", d)
	}
	r.reset()
	r.offer(0, 5, 0)
	if len(r.at) != 0 {
		t.Error("none was asked for")
	}
}

func FuzzPidText(f *testing.F) {
	for _, name := range []string{"io", "status", "cgroup", "environ", "smaps_rollup"} {
		b, err := os.ReadFile("/proc/self/" + name)
		if err != nil || len(b) == 0 {
			f.Fatalf("no seed: %v", err)
		}
		f.Add(b)
	}
	f.Add([]byte("0::/a/job_1/step_batch/user/task_0\n"))
	f.Add([]byte("SLURM_STEPID=0\x00SLURM_LOCALID=1\x00"))
	f.Add([]byte("x: 1\nread_bytes: 1\nwrite_bytes: 2\n\nvoluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t2\nPss: 1 kB\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, ok := parsePidIO(b); ok && !strings.Contains(string(b), "read_bytes") {
			t.Errorf("%q has bytes", b)
		}
		if _, ok := parseSwitches(b); ok && !strings.Contains(string(b), "nonvoluntary_ctxt_switches:") {
			t.Errorf("%q has switches", b)
		}
		if v, ok := parsePSS(b); ok && v%1024 != 0 {
			t.Errorf("%q has a PSS of %d", b, v)
		}
		if step, task := stepOf(environ.Parse(b)); step == "" && task.Valid() {
			t.Errorf("%q is of task %v of no step", b, task)
		}
	})
}

// A process that cannot be read for a moment, because no descriptor is to be had, is
// there still: it is neither forgotten nor counted again.
func TestJobProcsUnread(t *testing.T) {
	c := newCrowd(t)
	src := NewJobProcs(c.root, c, 10)
	t.Cleanup(func() {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	})
	rename := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	for range maxHeld { // it has none of its own
		src.held++
	}
	c.put(one{pid: 100, parent: 1, read: 10, switches: 7})
	stat, aside := c.root.Proc+"/100/stat", c.root.Proc+"/stat_of_100"
	for round, unreadable := range []bool{false, true, false, false} {
		if unreadable {
			rename(stat, aside)
			if err := os.Mkdir(stat, 0o755); err != nil { // reading it fails, as it does without a descriptor
				t.Fatal(err)
			}
		}
		s := rt.Snapshot{Reason: rt.ReasonLast, Job: rt.JobReading{Phase: rt.JobPresent}}
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
		if s.Job.ProcReadBytes.Or(0) != 10 || s.Job.VoluntarySwitches.Or(0) != 7 {
			t.Errorf("reading %d: %v bytes read, %v switches", round, s.Job.ProcReadBytes, s.Job.VoluntarySwitches)
		}
		if unreadable {
			if err := os.Remove(stat); err != nil {
				t.Fatal(err)
			}
			rename(aside, stat)
		}
	}
}
