package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

const (
	// walkShare bounds what reading the job's processes costs: after a walk the next
	// one waits until this part of a core has paid for it.
	walkShare = 0.0025
	// walkPause is the least time between two walks. A little less than a second, so
	// that a reading every second finds it over.
	walkPause = 900 * time.Millisecond
	// heldMost is how many processes have descriptors of their own, three each. The
	// others' files are opened for each reading.
	heldMost = 1024
)

// Lister lists the job's processes: cgroup.Job, in practice.
type Lister interface {
	// Procs appends the pids of the job's processes to dst. Some may have ended.
	Procs(dst []int) []int
}

// JobProcs reads the processes of a job: those that use most, and what all of them
// have read, written and how often they gave up their CPU.
//
// A walk over a thousand processes costs some ten milliseconds, so that not every
// reading makes one: snapshots between two walks show no process, and the sums of
// the last walk.
//
// Bytes are exact as long as each process that ends is collected by another one of
// the job or by its slurmstepd (see account); short processes that no walk ever
// saw are in there too. They are a lower bound where nobody collects, where the
// parent ignores SIGCHLD, and for a step whose slurmstepd was gone before it was
// read a last time: Notes tells so.
type JobProcs struct {
	fs       FS
	list     Lister
	top      int
	pageSize uint64
	held     int // how many processes have descriptors

	procs   []jobProcess // a parent always before its children
	at      map[int]int  // pid -> place in procs
	fresh   []jobProcess // scratch: those found in this walk
	pids    []int
	rank    rank
	shown   []int // scratch: places in procs of those that the snapshot shows
	names   peek
	reapers reapers
	slow    slowReads

	time     func() time.Duration // CPU time so far, by which the cost of a walk is known
	next     int64                // Boot of the next walk
	nextPSS  int64                // Boot of the next time that PSS is asked for
	io       counters             // sums, see publish
	lost     counters             // of io: what those that are gone had
	switches counters
	ended    counters // of switches: what those that are gone had
	ioSeen   bool
	seen     bool
	denied   error
	hurry    atomic.Bool
}

// NewJobProcs returns the source of Snapshot.Procs and of the fields of the job
// that are sums over its processes. top is how many processes are shown for their
// CPU time, and how many for their memory. The source is bound to the job's
// readings: it comes after them.
func NewJobProcs(fs FS, list Lister, top int) *JobProcs {
	return &JobProcs{
		fs: fs, list: list, top: top, pageSize: uint64(os.Getpagesize()),
		at: map[int]int{}, slow: slowReads{root: fs.Proc, patience: slowWait}, time: threadTime,
	}
}

// Name is what the ledger calls the source.
func (j *JobProcs) Name() string { return "job processes" }

// Read fills s.Procs where a walk is due, and the sums of s.Job.
func (j *JobProcs) Read(s *rt.Snapshot) error {
	s.Procs = s.Procs[:0]
	if s.Job.Phase == rt.JobNone || s.Job.Phase == rt.JobPending && !j.early() {
		return nil
	}
	if hurry := j.hurry.Swap(false); hurry || s.Reason != rt.ReasonTick || s.Boot >= j.next {
		began := j.time()
		j.walk()
		j.show(s)
		cost := j.time() - began
		j.next = s.Boot + int64(max(walkPause, time.Duration(float64(cost)/walkShare)))
	}
	j.publish(&s.Job)
	return errors.Join(j.denied, j.slow.failed())
}

// StepBegins takes in the slurmstepds of new steps; the others of pids are left out.
// It may be called while Read is at work.
func (j *JobProcs) StepBegins(pids []int) { j.reapers.meet(pids, j.fs.Proc) }

// StepEnds takes in the slurmstepds among pids and notes what the one of the step has
// collected, all of whose tasks have ended: it ends some milliseconds later itself.
// Without the step's name all of them are read. It may be called while Read is at work.
func (j *JobProcs) StepEnds(step string, pids []int) {
	j.reapers.meet(pids, j.fs.Proc)
	j.reapers.read(step)
}

// early says whether there are processes of the job though its cgroup is not there:
// the resource manager may make none.
func (j *JobProcs) early() bool {
	if len(j.procs) == 0 && !j.seen {
		j.pids = j.list.Procs(j.pids[:0])
	}
	return j.seen || len(j.pids) > 0
}

// Hurry lets the next Read look at the processes, whatever that costs. It may be
// called while Read is at work.
func (j *JobProcs) Hurry() { j.hurry.Store(true) }

// Notes tells of the steps whose bytes are a lower bound. It may be called while
// Read is at work.
func (j *JobProcs) Notes() []rt.Event { return j.reapers.take() }

// Close gives the descriptors back.
func (j *JobProcs) Close() error {
	for i := range j.procs {
		j.release(&j.procs[i])
	}
	j.procs = nil
	clear(j.at)
	j.reapers.close()
	j.slow.close()
	return nil
}

// threadTime is the CPU time of the calling thread. That the goroutine moves to
// another one in between makes a walk's cost wrong once.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// walk reads all of the job's processes.
func (j *JobProcs) walk() {
	j.denied = nil
	j.pids = j.list.Procs(j.pids[:0])
	j.reapers.begin()
	for i := range j.procs {
		p := &j.procs[i]
		ppid := p.ppid
		j.refresh(p)
		if p.ppid != ppid {
			j.meetParent(p)
		}
		if p.alive && p.looks < looksMost && p.step != "" {
			j.place(p)
		}
	}
	j.discover()
	j.bury()
}

func (j *JobProcs) refresh(p *jobProcess) {
	var denied bool
	p.alive, denied = p.refresh(&j.names, j.fs.Proc)
	p.pss.Clear()
	if denied && j.denied == nil {
		j.denied = fmt.Errorf("read %s/%d/io: %w; reading the bytes of a job's processes takes root or CAP_SYS_PTRACE", j.fs.Proc, p.pid, fs.ErrPermission)
	}
	j.ioSeen = j.ioSeen || p.ioRead
	j.seen = j.seen || p.alive
}

// discover takes in the processes that are new, the older first.
func (j *JobProcs) discover() {
	j.fresh = j.fresh[:0]
	for _, pid := range j.pids {
		if i, ok := j.at[pid]; ok && j.procs[i].alive {
			continue
		}
		if stat, err := j.names.stat(j.fs.Proc, pid); err == nil {
			j.fresh = append(j.fresh, jobProcess{pid: pid, ppid: stat.PPID, start: stat.Start, quiet: quietMost})
		}
	}
	slices.SortFunc(j.fresh, older)
	for i := range j.fresh {
		p := &j.fresh[i]
		j.reapers.drop(p.pid)
		if j.held < heldMost {
			p.hold(&j.names, j.fs.Proc)
			j.held++
		}
		j.refresh(p)
		j.place(p)
		j.at[p.pid] = len(j.procs)
		j.procs = append(j.procs, *p)
	}
	for i := len(j.procs) - len(j.fresh); i < len(j.procs); i++ {
		j.meetParent(&j.procs[i])
	}
}

func older(a, b jobProcess) int {
	if a.start != b.start {
		if a.start < b.start {
			return -1
		}
		return 1
	}
	return a.pid - b.pid
}

// meetParent takes in the parent of p where that is the step's slurmstepd.
func (j *JobProcs) meetParent(p *jobProcess) {
	if _, ok := j.at[p.ppid]; !ok && p.ppid > 1 {
		j.reapers.adopt(p.ppid, j.fs.Proc)
	}
}

// looksMost is how often a process that is in a step is looked for its task, if it is not
// found in the same one twice: it comes to the step's directory first, on some nodes to
// that of another number, and then to the task's.
const looksMost = 4

// place finds out to which step and task p belongs. Where no cgroup says it, its
// environment is asked, at leisure.
func (j *JobProcs) place(p *jobProcess) {
	p.looks++
	b, err := j.names.path(j.fs.Proc).num(p.pid).str("/cgroup").read()
	if err != nil {
		return
	}
	step, task := parseStep(b)
	if step == nil {
		return
	}
	if task.Valid() && task == p.task {
		p.looks = looksMost
	}
	p.step, p.task, p.placed = j.stepName(step), task, true
}

// stepName is b as a string, shared with a process of the same step.
func (j *JobProcs) stepName(b []byte) string {
	for i := range j.procs {
		if j.procs[i].step == string(b) {
			return j.procs[i].step
		}
	}
	return keep("", b)
}

// bury settles the accounts of those that are gone and forgets them.
func (j *JobProcs) bury() {
	for i := range j.procs {
		p := &j.procs[i]
		if p.alive {
			continue
		}
		j.ended.add(p.switches)
		if a := j.collector(p); a != nil {
			a.gone.add(p.io.total())
		} else {
			j.lost.add(p.io.total())
		}
	}
	past, present, any := j.reapers.settle()
	j.ioSeen = j.ioSeen || any
	j.lost.add(past)
	j.io, j.switches = present, j.ended
	n := len(j.procs)
	living := j.procs[:0]
	for i := range j.procs {
		p := &j.procs[i]
		if !p.alive {
			j.release(p)
			delete(j.at, p.pid)
			continue
		}
		j.lost.add(p.io.settle())
		j.io.add(p.io.total())
		j.switches.add(p.switches)
		living = append(living, *p)
	}
	clear(j.procs[len(living):n])
	j.procs = living
	if len(living) < n {
		for i := range living {
			j.at[living[i].pid] = i
		}
	}
	j.io.add(j.lost)
}

// collector is the account in which a process that is gone should turn up: that of
// the nearest ancestor which still lives, or of the slurmstepd above.
func (j *JobProcs) collector(p *jobProcess) *account {
	for range j.procs {
		i, ok := j.at[p.ppid]
		if !ok {
			return j.reapers.of(p.ppid)
		}
		if p = &j.procs[i]; p.alive {
			return &p.io
		}
	}
	return nil
}

func (j *JobProcs) release(p *jobProcess) {
	if p.held {
		p.release()
		j.held--
	}
}

// publish fills the sums.
func (j *JobProcs) publish(r *rt.JobReading) {
	if j.seen {
		r.VoluntarySwitches.Set(j.switches[0])
		r.InvoluntarySwitches.Set(j.switches[1])
	}
	if j.ioSeen {
		r.ProcReadBytes.Set(j.io[0])
		r.ProcWriteBytes.Set(j.io[1])
	}
}
