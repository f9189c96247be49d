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
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"golang.org/x/sys/unix"

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

	waited int // ticks of the children that it has waited for

	own  int    // read by its main thread; of a slurmstepd
	step string // of a slurmstepd
	uid  int
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
	write(c.t, dir+"/stat", fmt.Sprintf("%d (%s) S %d 1 1 0 -1 4194304 98 0 0 0 %d 1 %d 0 20 0 3 0 %d 3133440 %d 18446744073709551615 1 1\n",
		p.pid, p.comm, p.parent, p.ticks, p.waited, 1000+p.pid, p.pages))
	write(c.t, dir+"/io", pidIO(p.read))
	if p.comm == stepd {
		write(c.t, fmt.Sprintf("%s/task/%d/io", dir, p.pid), pidIO(p.own))
		write(c.t, dir+"/cmdline", fmt.Sprintf("slurmstepd: [7.%s]\x00\x00", p.step))
	}
	write(c.t, dir+"/status", fmt.Sprintf("Name:\tx\nUid:\t%d\t0\t0\t0\nvoluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t%d\n", p.uid, p.switches, 3*p.switches))
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

// A step begins and ends between two walks. Whenever its daemon is met, all bytes that its
// tasks have read are there if it is read once after their end.
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
				s := rt.Snapshot{Reason: rt.ReasonLast, Job: rt.JobReading{Phase: rt.JobGone, CPUUsage: u64(0)}}
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
			notes := missing(src)
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

// A process that no reading found and no process of the job waits for leaves its CPU time in the
// job's cgroup. The bytes are then a lower bound, and the ledger records that once.
func TestJobProcsMissed(t *testing.T) {
	for name, tt := range map[string]struct {
		cgroup int // ticks of the job's cgroup; its processes have 100
		io     bool
		orphan bool // a process with a foreign parent is seen
		child  bool // a process with a parent in the job is seen, and the parent does not wait for it
		extern bool // the extern step has a process of its own with 30 ticks, and an SSH session with 7
		v2     bool // the cgroup's CPU time is without the process of the extern step
		ended  bool // the extern step has ended, and its slurmstepd has waited for the process
		none   bool // the job has no cgroup
		noCPU  bool // the job's cgroup does not count CPU time
		want   string
	}{
		"all are counted":            {cgroup: 101},
		"within the tolerance":       {cgroup: 106},
		"a daemon was not seen":      {cgroup: 140, want: "not seen used 400 ms of the job's 1400 ms"},
		"the io controller counts":   {cgroup: 140, io: true},
		"an orphan was seen":         {cgroup: 106, orphan: true, want: "no process of the job waited"},
		"an orphan and a daemon":     {cgroup: 146, orphan: true, want: "not seen used 400 ms"},
		"more than the cgroup used":  {cgroup: 50},
		"a child was not waited for": {cgroup: 106, child: true, want: "no process of the job waited"},

		"v1: the extern step":                {cgroup: 138, extern: true},
		"v2: the extern step":                {cgroup: 108, extern: true, v2: true},
		"v2: a daemon and the extern step":   {cgroup: 137, extern: true, v2: true, want: "not seen used 300 ms"},
		"v1: the extern step ended":          {cgroup: 138, extern: true, ended: true},
		"v2: a daemon, extern step ended":    {cgroup: 137, extern: true, v2: true, ended: true, want: "not seen used 300 ms"},
		"v2: nothing, the extern step ended": {cgroup: 108, extern: true, v2: true, ended: true},
		"there is no cgroup":                 {none: true, want: "no cgroup counts the CPU time of the job"},
		"the cgroup counts no CPU time":      {noCPU: true, want: "no cgroup counts the CPU time of the job"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t)
			c.put(one{pid: 50, parent: 1, read: 1000, own: 1000, comm: stepd, step: "batch"})
			c.put(one{pid: 100, parent: 50, read: 10, ticks: 59, waited: 40})
			if tt.orphan {
				c.put(one{pid: 200, parent: 1, read: 10, ticks: 5})
			}
			if tt.child {
				c.put(one{pid: 200, parent: 100, read: 10, ticks: 5})
			}
			if tt.extern {
				c.put(one{pid: 40, parent: 1, read: 1000, own: 1000, comm: stepd, step: "extern"})
				c.put(one{pid: 60, parent: 40, ticks: 28, waited: 1, cgroup: "0::/slurm/job_7/step_extern/user/task_special\n"})
				c.put(one{pid: 70, parent: 1, ticks: 6, cgroup: "0::/slurm/job_7/step_extern/user/task_special\n"})
			}
			src := NewJobProcs(c.root, c, 10)
			read := func(why rt.Reason) {
				t.Helper()
				s := rt.Snapshot{Reason: why, Job: rt.JobReading{Phase: rt.JobPresent, CPUUsage: u64(uint64(tt.cgroup) * 10_000)}}
				if tt.v2 {
					s.Job.StepdCPUUsage = u64(1)
				}
				if tt.noCPU {
					s.Job.CPUUsage.Clear()
				}
				if tt.none {
					s.Job = rt.JobReading{Phase: rt.JobPending}
				}
				if tt.io {
					s.Job.IOReadBytes, s.Job.IOWriteBytes = u64(1), u64(1)
				}
				if err := src.Read(&s); err != nil {
					t.Fatal(err)
				}
			}
			read(rt.ReasonFirst)
			c.end(100)
			if tt.orphan || tt.child {
				c.end(200)
			}
			c.put(one{pid: 50, parent: 1, read: 1010, own: 1000, waited: 100, comm: stepd, step: "batch"})
			src.StepEnds("batch", nil)
			c.end(50)
			if tt.ended {
				c.end(60)
				c.put(one{pid: 40, parent: 1, read: 1000, own: 1000, waited: 30, comm: stepd, step: "extern"})
				src.StepEnds("extern", nil)
				c.end(40)
			}
			read(rt.ReasonLast)
			read(rt.ReasonLast)
			all := src.Notes()
			notes := slices.DeleteFunc(slices.Clone(all), isSource)
			if isBound := len(all) == len(notes)+1; isBound == tt.io {
				t.Errorf("the ledger has %v; the io controller is on: %v", all, tt.io)
			}
			if len(notes) > 1 || len(notes) == 1 != (tt.want != "") {
				t.Fatalf("the ledger has %v", notes)
			}
			if len(notes) == 1 && (notes[0].Name != "bytes" || notes[0].Status != "estimated" || !strings.Contains(notes[0].Detail, tt.want)) {
				t.Errorf("the ledger has %+v, want %q", notes[0], tt.want)
			}
			if err := src.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// isSource reports whether an event describes the source of the bytes: the processes.
func isSource(e rt.Event) bool {
	return e.Name == "io" && e.Status == "ok" && strings.Contains(e.Detail, "a lower bound")
}

// missing returns the other events, which report that bytes are missing.
func missing(src *JobProcs) []rt.Event { return slices.DeleteFunc(src.Notes(), isSource) }

// Slurm 26.05 with cgroup v1 has slurmstepd among the processes of the step's cgroup.
func TestJobProcsStepdInItsStep(t *testing.T) {
	c := newCrowd(t)
	c.put(one{pid: 50, parent: 1, read: 1000, own: 1000, ticks: 30, comm: stepd, step: "batch"})
	c.put(one{pid: 100, parent: 50, read: 10, ticks: 99})
	c.pids = append(c.pids, 50)
	src := NewJobProcs(c.root, c, 10)
	read := func(why rt.Reason, want uint64) {
		t.Helper()
		s := rt.Snapshot{Reason: why, Job: rt.JobReading{Phase: rt.JobPresent, CPUUsage: u64(1_310_000), Pids: u64(uint64(len(c.pids)))}}
		of := uint64(len(c.pids))
		s.Steps = []rt.StepReading{
			{Step: "batch", Pids: u64(of)}, {Step: "batch", Task: u64(0), Pids: u64(of - 1)},
			{Step: "0", Pids: u64(3)}, {Step: "1"}, {Step: "batch", Ended: true, Pids: u64(2)},
		}
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
		if got := s.Job.ProcReadBytes; got != u64(want) {
			t.Errorf("%v bytes read, want %d", got, want)
		}
		if got := s.Job.Pids.Or(9); got != uint64(len(s.Procs)) {
			t.Errorf("%d processes, want %d", got, len(s.Procs))
		}
		for i, want := range []rt.Opt[uint64]{u64(of - 1), u64(of - 1), u64(3), {}, u64(2)} {
			if got := s.Steps[i].Pids; got != want {
				t.Errorf("step %d of the reading: %v processes, want %v", i, got, want)
			}
		}
		for _, p := range s.Procs {
			if p.Comm == stepd {
				t.Error("slurmstepd is shown as a process of the job")
			}
		}
	}
	read(rt.ReasonFirst, 10)
	c.end(100)
	c.put(one{pid: 50, parent: 1, read: 1040, own: 1000, ticks: 30, waited: 100, comm: stepd, step: "batch"})
	read(rt.ReasonLast, 40)
	if notes := missing(src); len(notes) > 0 {
		t.Errorf("the ledger has %v", notes)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

// A reading without a scan leaves out the slurmstepds that still run. If one runs that began after
// the last scan, the number of processes is not known.
func TestJobProcsStepdBetweenScans(t *testing.T) {
	c := newCrowd(t)
	c.put(one{pid: 50, parent: 1, comm: stepd, step: "0"})
	c.put(one{pid: 100, parent: 50})
	c.pids = append(c.pids, 50)
	src := NewJobProcs(c.root, c, 10)
	read := func(why rt.Reason, listed uint64, want, wantStep0 rt.Opt[uint64]) {
		t.Helper()
		s := rt.Snapshot{Reason: why, Job: rt.JobReading{Phase: rt.JobPresent, Pids: u64(listed)}}
		s.Steps = []rt.StepReading{{Step: "0", Pids: u64(listed)}}
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
		if s.Job.Pids != want || s.Steps[0].Pids != wantStep0 {
			t.Errorf("%v processes of %d, want %v; step 0: %v, want %v", s.Job.Pids, listed, want, s.Steps[0].Pids, wantStep0)
		}
	}
	read(rt.ReasonFirst, 2, u64(1), u64(1))
	read(rt.ReasonTick, 2, u64(1), u64(1))
	c.put(one{pid: 60, parent: 1, comm: stepd, step: "1"})
	src.StepBegins([]int{60})
	read(rt.ReasonTick, 3, rt.Opt[uint64]{}, u64(2))
	c.end(60)
	read(rt.ReasonTick, 2, u64(1), u64(1))
	c.end(50)
	read(rt.ReasonTick, 1, u64(1), u64(1))
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

// A program of the user that is called slurmstepd is a process of the job, whatever its title.
// So is a program of root without the title of a step.
func TestJobProcsNamedLikeStepd(t *testing.T) {
	for name, tt := range map[string]struct {
		uid     int
		cmdline string
	}{
		"the user's": {1000, "slurmstepd: [7.0]\x00"},
		"root's":     {0, "./slurmstepd\x00-v\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t)
			c.put(one{pid: 100, parent: 1, read: 10, comm: stepd, uid: tt.uid})
			write(t, c.root.Proc+"/100/cmdline", tt.cmdline)
			c.pids = append(c.pids, 100)
			src := NewJobProcs(c.root, c, 10)
			s := rt.Snapshot{Reason: rt.ReasonFirst, Job: rt.JobReading{Phase: rt.JobPresent, Pids: u64(1)}}
			if err := src.Read(&s); err != nil {
				t.Fatal(err)
			}
			if s.Job.Pids != u64(1) || len(s.Procs) != 1 || s.Job.ProcReadBytes != u64(10) {
				t.Errorf("%v processes, %d shown, %v bytes; want 1, 1, 10", s.Job.Pids, len(s.Procs), s.Job.ProcReadBytes)
			}
			if err := src.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What a daemon had collected when it was met counts once: as its own from then on, not
// also as the earlier task's.
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

// A tracker over its budget makes no scans while steps come and go. Their daemons do not
// accumulate, and the bytes of their tasks are in the next scan.
func TestJobProcsStepsWithoutScans(t *testing.T) {
	const steps = 60
	c := newCrowd(t)
	c.pids = nil
	src := NewJobProcs(c.root, c, 10)
	for i := range steps {
		step := strconv.Itoa(i)
		c.put(one{pid: 50 + i, parent: 1, read: 1000, own: 1000, comm: stepd, step: step})
		src.StepBegins([]int{50 + i})
		c.put(one{pid: 50 + i, parent: 1, read: 1003, own: 1000, comm: stepd, step: step})
		src.StepEnds(step, nil)
		if i%2 == 0 { // the others end later
			c.end(50 + i)
		}
		if i > 0 {
			c.end(50 + i - 1)
		}
		if n := len(src.reapers.list); n > 3 {
			t.Fatalf("%d daemons after %d steps", n, i+1)
		}
	}
	c.end(50 + steps - 1)
	for range 2 {
		s := rt.Snapshot{Reason: rt.ReasonLast, Job: rt.JobReading{Phase: rt.JobGone, CPUUsage: u64(0)}}
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
		if got := s.Job.ProcReadBytes; got != u64(3*steps) {
			t.Errorf("%v bytes, want %d", got, 3*steps)
		}
	}
	for _, e := range src.Notes() {
		if e.Name == "bytes" {
			t.Errorf("%+v", e)
		}
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

// A scan finds the daemon by its task. Both have ended when the next daemon is found before the next scan: the bytes
// and the CPU time of the task count once.
func TestJobProcsParentEnds(t *testing.T) {
	c := newCrowd(t)
	c.put(one{pid: 50, parent: 1, read: 1000, own: 1000, comm: stepd, step: "0"})
	c.put(one{pid: 100, parent: 50, read: 10, ticks: 3})
	src := NewJobProcs(c.root, c, 10)
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
	read(10)
	c.end(100)
	c.put(one{pid: 50, parent: 1, read: 1015, own: 1000, waited: 4, comm: stepd, step: "0"})
	src.StepEnds("0", nil)
	c.end(50)
	c.put(one{pid: 60, parent: 1, read: 1000, own: 1000, comm: stepd, step: "1"})
	src.StepBegins([]int{60})
	read(15)
	isBound := src.lostIO != counters{} || src.reapers.isBound
	if src.unseen.lostCPU != 0 || isBound {
		t.Errorf("%d ticks of the task count also as ticks without a daemon; a lower bound: %v", src.unseen.lostCPU, isBound)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

// The daemons of new steps are added while a scan gives the bytes of ended tasks to the daemon that waits for them.
func TestJobProcsStepsBeginDuringRead(t *testing.T) {
	const tasks = 40
	c := newCrowd(t)
	c.pids = nil
	c.put(one{pid: 50, parent: 1, read: 1000, own: 1000, comm: stepd, step: "0"})
	for i := range tasks {
		c.put(one{pid: 1000 + i, parent: 50, read: 10})
		c.put(one{pid: 100 + i, parent: 1, read: 1000, own: 1000, comm: stepd, step: strconv.Itoa(1 + i)})
	}
	src := NewJobProcs(c.root, c, 10)
	s := rt.Snapshot{Reason: rt.ReasonLast, Job: rt.JobReading{Phase: rt.JobPresent}}
	if err := src.Read(&s); err != nil {
		t.Fatal(err)
	}
	for i := range tasks {
		c.end(1000 + i)
	}
	var begins sync.WaitGroup
	begins.Go(func() {
		for i := range tasks {
			src.StepBegins([]int{100 + i})
		}
	})
	err := src.Read(&s)
	begins.Wait()
	if got := s.Job.ProcReadBytes; err != nil || got != u64(10*tasks) {
		t.Errorf("%v bytes, want %d, %v", got, 10*tasks, err)
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
	src.shown.slow.wait = time.Hour
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
	if len(s.Procs) != 0 || s.Job.ProcReadBytes.Valid() || s.Job.VoluntarySwitches.Valid() {
		t.Errorf("a reading without a scan has %d processes, %v bytes and %v switches", len(s.Procs), s.Job.ProcReadBytes, s.Job.VoluntarySwitches)
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

// After the credit of the first scans, a scan that costs 20 ms of CPU time is followed by 8 s
// without one.
func TestJobProcsPace(t *testing.T) {
	c := newCrowd(t)
	c.put(one{pid: 100, parent: 1})
	src := NewJobProcs(c.root, c, 1)
	var used time.Duration
	src.time = func() time.Duration { used += 80 * time.Millisecond; return used }
	var walked []int
	for sec := range 120 {
		s := rt.Snapshot{Boot: int64(sec) * 1e9, Job: rt.JobReading{Phase: rt.JobPresent}}
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
		if len(s.Procs) > 0 {
			walked = append(walked, sec)
		}
	}
	if d := cmp.Diff([]int{0, 1, 2, 3, 4, 5, 6, 7, 16, 48, 80, 112}, walked); d != "" {
		t.Errorf("seconds of the walks (-want +got):\n%s", d)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

// One slow scan, such as the first one on a busy node, does not prevent further scans of a short
// job. If scans are too expensive for that, the ledger records it once.
func TestJobProcsSlowWalks(t *testing.T) {
	for _, tt := range []struct {
		first, then time.Duration
		within      int // second of the second walk
		note        string
	}{
		{first: 590 * time.Millisecond, then: time.Millisecond, within: 1},
		{first: 610 * time.Millisecond, then: time.Millisecond, within: 4},
		{first: 700 * time.Millisecond, then: 700 * time.Millisecond, within: 40,
			note: "reading 1 processes of the job took 700 ms of CPU time: the readings of the next 40 s are without processes, and so are most later ones"},
	} {
		c := newCrowd(t)
		c.put(one{pid: 100, parent: 1})
		src := NewJobProcs(c.root, c, 1)
		used, cost, n := time.Duration(0), tt.first, 0
		src.time = func() time.Duration {
			n++
			if n%2 == 0 { // the end of a walk
				used += cost
				cost = tt.then
			}
			return used
		}
		second := 0
		for sec := range 60 {
			s := rt.Snapshot{Boot: int64(sec) * 1e9, Job: rt.JobReading{Phase: rt.JobPresent}}
			if err := src.Read(&s); err != nil {
				t.Fatal(err)
			}
			if len(s.Procs) > 0 && sec > 0 && second == 0 {
				second = sec
			}
		}
		if second != tt.within {
			t.Errorf("%s: the second walk is in second %d, want %d", tt.first, second, tt.within)
		}
		var notes []string
		for _, e := range src.Notes() {
			notes = append(notes, e.Detail)
		}
		if got := strings.Join(notes, "; "); got != tt.note {
			t.Errorf("%s: the ledger has %q, want %q", tt.first, got, tt.note)
		}
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A process that hangs delays its PSS, not the reading.
func TestJobProcsHang(t *testing.T) {
	r := pssReader{root: t.TempDir(), wait: 1, most: time.Minute}
	path := r.root + "/7/smaps_rollup"
	if err := errors.Join(os.Mkdir(r.root+"/7", 0o700), unix.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if !r.free() {
		t.Error("a reader that was not used is busy")
	}
	r.list = []slowRead{{pid: 7}}
	if r.run() { // the kernel opens a pipe without a writer as slowly as a file of a process that hangs
		t.Error("a list that hangs is finished")
	}
	if r.free() {
		t.Error("a list that is still in use is free")
	}
	pipe, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	<-r.done
	if !r.free() || r.failed() != nil {
		t.Errorf("a list that has ended is in use: %v", r.failed())
	}
}

func TestJobProcsDenied(t *testing.T) {
	c := newCrowd(t)
	c.put(one{pid: 100, parent: 1})
	src := NewJobProcs(c.root, c, 1)
	src.denied = fmt.Errorf("x: %w", fs.ErrPermission)
	s := rt.Snapshot{Boot: 1, Job: rt.JobReading{Phase: rt.JobPresent}}
	src.pace.next = 10
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

func TestLargestProcesses(t *testing.T) {
	set := &processSet{}
	for _, v := range []uint64{3, 9, 1, 9, 7, 0, 8} {
		set.procs = append(set.procs, member{rss: v})
	}
	rss := func(p *member) uint64 { return p.rss }
	h := shownProcesses{size: 3}
	if d := cmp.Diff([]int{1, 3, 6}, h.largest(set, rss)); d != "" {
		t.Errorf("the largest (-want +got):\n%s", d)
	}
	h.size = 0
	if len(h.largest(set, rss)) != 0 {
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

// A process that cannot be read for a moment, for lack of a descriptor, is there still: it
// is neither forgotten nor counted again.
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
