package proc

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/slurm/layout"
)

// Lister lists the job's processes. cgroup.Job implements it.
type Lister interface {
	// Procs appends the pids of the job's processes to dst. Some may have ended.
	Procs(dst []int) []int
}

// JobProcs reads the job's processes with the most CPU time and memory. It also reads the
// sums of the I/O bytes and context switches of all processes.
//
// A scan of a thousand processes takes tens of milliseconds, so not every reading makes one.
// A snapshot between two scans has no processes and no sums.
//
// The bytes are a lower bound. They are complete if a process of the job or its slurmstepd
// waits for each process that exits, see processCounter. Then they include short processes
// that no scan has seen. Bytes are missing if no process waits, if the parent ignores
// SIGCHLD, and if the slurmstepd of a step exited before its final reading. Notes reports
// the cases that are noticed; see lowerBound for processes that no scan has seen.
type JobProcs struct {
	processSet
	list    Lister
	reapers reapers
	shown   shownProcesses
	unseen  unseenProcesses

	pids  []int
	fresh []member // scratch: those found in this scan

	time     func() time.Duration // CPU time so far, to measure the cost of a scan
	pace     scanPace
	isDue    atomic.Bool // the next Read makes a scan
	reaped   counters    // bytes that ended reapers have counted
	io       counters    // sum of the bytes, see publish
	switches counters    // sum, see publish
	ended    counters    // of switches: the ended processes'
	daemons  []int       // slurmstepds in the list of the job's processes
	isAmong  bool        // a scan has found slurmstepds there
	seen     bool        // a scan has found a process
	denied   error
}

// NewJobProcs returns the source of Snapshot.Procs and of the job's fields that are sums over
// its processes. A snapshot has the top processes by CPU time and the top processes by memory.
// The source uses the job's part of the snapshot, so it must be read after the job.
func NewJobProcs(fs FS, list Lister, top int) *JobProcs {
	j := &JobProcs{
		processSet: processSet{fs: fs, at: map[int]int{}, hasIO: true},
		list:       list, time: collect.ThreadTime,
		shown: shownProcesses{size: top, slow: pssReader{root: fs.Proc, wait: slowWait, most: pssTime}},
	}
	j.outside, j.ends = j.reapers.addEnded, j.end
	return j
}

// Name is the name of the source in the ledger.
func (j *JobProcs) Name() string { return "job processes" }

// Read fills s.Procs if a scan is due, and the sums of s.Job.
func (j *JobProcs) Read(s *rt.Snapshot) error {
	s.Procs = s.Procs[:0]
	isEarly := s.Job.Phase == rt.JobPending && !j.isRunning()
	if s.Job.Phase == rt.JobNone || isEarly {
		return nil
	}
	if isDue := j.isDue.Swap(false); isDue || s.Reason != rt.ReasonTick || s.Boot >= j.pace.next {
		j.measureScan(s)
	} else {
		j.dropEndedDaemons()
	}
	j.leaveOutDaemons(s)
	return errors.Join(j.denied, j.shown.slow.failed())
}

// measureScan makes a scan and sets when the next one is due. It stays on one thread, whose
// CPU time it measures.
func (j *JobProcs) measureScan(s *rt.Snapshot) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := j.time()
	j.scan()
	s.Procs = j.shown.appendTo(s.Procs, &j.processSet, s.Boot)
	j.publish(&s.Job)
	isEnd := s.Reason == rt.ReasonLast || s.Reason == rt.ReasonStop
	if isEnd {
		j.lowerBound(&s.Job)
	}
	detail := j.pace.scanned(s.Boot, j.time()-began, len(j.procs))
	if detail != "" {
		j.reapers.add(rt.Event{Time: time.Now(), Kind: "tracker", Name: "budget", Status: "over", Detail: detail})
	}
}

// StepBegins adds the slurmstepds of new steps; other processes among pids are ignored.
// It may be called during Read.
func (j *JobProcs) StepBegins(pids []int) {
	for _, pid := range pids {
		j.reapers.track(pid, j.fs.Proc, false)
	}
}

// StepEnds adds the slurmstepds among pids and reads the slurmstepd of the step. All tasks of
// the step have ended, and its slurmstepd exits some milliseconds later. If step is empty, all
// slurmstepds are read. StepEnds may be called during Read.
func (j *JobProcs) StepEnds(step string, pids []int) {
	j.StepBegins(pids)
	j.reapers.read(step)
}

// isRunning reports whether the job has processes: its cgroup may never be created.
func (j *JobProcs) isRunning() bool {
	if len(j.procs) == 0 && !j.seen {
		j.pids = j.list.Procs(j.pids[:0])
	}
	return j.seen || len(j.pids) > 0
}

// Hurry makes the next Read scan the processes, even if that exceeds scanShare. It may be
// called during Read.
func (j *JobProcs) Hurry() { j.isDue.Store(true) }

// Notes returns an event for each step whose bytes are a lower bound, and one if bytes of
// other processes are missing. It may be called during Read.
func (j *JobProcs) Notes() []rt.Event { return j.reapers.take() }

// Close closes the descriptors.
func (j *JobProcs) Close() error {
	j.procs = nil
	clear(j.at)
	j.reapers.close()
	return nil
}

// scan reads the job's processes.
func (j *JobProcs) scan() {
	j.denied = nil
	j.pids = j.list.Procs(j.pids[:0])
	j.reapers.begin()
	for i := range j.procs {
		p := &j.procs[i]
		ppid := p.ppid
		j.readProcess(p)
		if p.ppid != ppid {
			j.trackReaper(p)
		}
		if p.alive && p.looks < maxLooks && p.step != "" {
			j.locateStep(p)
		}
	}
	j.discover()
	j.removeEnded()
}

// readProcess reads a process with its context switches.
func (j *JobProcs) readProcess(p *member) {
	j.refresh(p)
	p.pss.Clear()
	j.seen = j.seen || p.alive
	if p.isDenied && j.denied == nil {
		j.denied = fmt.Errorf("read %s/%d/io: %w; reading the bytes of a job's processes takes root or CAP_SYS_PTRACE", j.fs.Proc, p.pid, fs.ErrPermission)
	}
	if !p.alive {
		return
	}
	b, err := j.text(p, "/status")
	if err == nil {
		if c, ok := parseSwitches(b); ok {
			p.switches = c
		}
	}
}

// discover adds the new processes, the oldest first.
func (j *JobProcs) discover() {
	j.fresh, j.daemons = j.fresh[:0], j.daemons[:0]
	for _, pid := range j.pids {
		if i, ok := j.at[pid]; ok && j.procs[i].alive {
			continue
		}
		stat, err := j.peek.stat(j.fs.Proc, pid)
		switch {
		case err != nil:
		case string(stat.Comm) == stepd && j.reapers.track(pid, j.fs.Proc, true):
			j.isAmong = true
			j.daemons = append(j.daemons, pid) // Slurm 26.05 has it in the step's directory of v1
		default:
			j.fresh = append(j.fresh, member{pid: pid, ppid: stat.PPID, start: stat.Start})
		}
	}
	slices.SortFunc(j.fresh, older)
	for i := range j.fresh {
		p := &j.fresh[i]
		j.reapers.drop(p.pid)
		j.readProcess(p)
		j.locateStep(p)
		j.add(*p)
	}
	for i := len(j.procs) - len(j.fresh); i < len(j.procs); i++ {
		j.trackReaper(&j.procs[i])
	}
}

func older(a, b member) int {
	return cmp.Or(cmp.Compare(a.start, b.start), a.pid-b.pid)
}

// trackReaper adds the parent of p if it is the step's slurmstepd.
func (j *JobProcs) trackReaper(p *member) {
	if !j.has(p.ppid) && p.ppid > 1 {
		j.reapers.trackParent(p.ppid, j.fs.Proc)
	}
}

// maxLooks is the maximum number of readings of a process's cgroup. Several are necessary:
// Slurm moves a process first to the step's directory, on some nodes to another task's, and
// then to its task's. Two readings with the same task end the search.
const maxLooks = 4

// locateStep finds the step and task of p by its cgroup; the pssReader by its environment.
func (j *JobProcs) locateStep(p *member) {
	p.looks++
	b, err := j.peek.path(j.fs.Proc).num(p.pid).str("/cgroup").read()
	if err != nil {
		return
	}
	path, _ := layout.ParseProcess(string(b))
	if path.Step == "" {
		return
	}
	if path.Task.Valid() && path.Task == p.task {
		p.looks = maxLooks
	}
	p.step, p.task, p.located = path.Step, path.Task, true
}

// removeEnded adds what exited processes have used to the totals and drops them.
func (j *JobProcs) removeEnded() {
	j.countEnded()
	past, present, any := j.reapers.endScan()
	j.ioSeen = j.ioSeen || any
	j.dropEnded()
	_, j.io = j.sums()
	j.reaped.add(past)
	j.io.add(j.reaped)
	j.io.add(present)
	j.switches = j.ended
	for i := range j.procs {
		j.switches.add(j.procs[i].switches)
	}
}

// end keeps what a process that has ended has used. isCounted means that a process waits for it.
func (j *JobProcs) end(p *member, isCounted bool) {
	j.ended.add(p.switches)
	if !isCounted {
		j.loseCPU(p)
	}
}

// publish fills the sums in the job's reading.
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
