package proc

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// reaper is a slurmstepd that is the parent of processes of the job.
//
// Only the main thread does I/O for slurmstepd itself. So the tasks that it has waited for
// have the bytes of its process minus the bytes of that thread. Therefore one reading
// between the end of its last task and its own end is sufficient.
type reaper struct {
	pid   int
	step  string        // "" if its title has none
	all   procfile.File // /proc/<pid>/io
	own   procfile.File // /proc/<pid>/task/<pid>/io
	stat  procfile.File // /proc/<pid>/stat
	alive bool
	final bool           // it was read after the end of its last task
	gone  bool           // it had ended when the scan began
	io    processCounter // of the scans
	late  counters       // the bytes of its tasks when it was last read

	cpu, before uint64 // ticks of the processes that it has waited for: when last read, and at the last scan
	ownCPU      uint64 // ticks
	isInJob     bool   // see track
	isOld       bool   // it was known when the last scan began
	isParent    bool   // of a process that a scan has found
}

// reapers has the slurmstepds of the job. They are also read between two scans, because a
// slurmstepd exits a few milliseconds after the end of its step.
type reapers struct {
	mu    sync.Mutex
	list  []reaper
	peek  peek
	steps [64]string // those that ended last
	ended int        // number of steps that ended
	notes []rt.Event

	past      counters  // the bytes of reapers that ended since the last scan, see settle
	endedCPU  waitedCPU // of the processes that the ended reapers had waited for
	endedList uint64    // number of ended reapers
	isBound   bool      // a process ended that its reaper has not waited for
}

// track adds the process pid if it is a slurmstepd that is not known yet, and reports
// whether it is one. isInJob is set if it is in a cgroup of the job, which then counts its
// own CPU time too. There a program of the user can have the same name.
func (r *reapers) track(pid int, root string, isInJob bool) (isStepd bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trackLocked(pid, root, isInJob)
}

// trackParent is track for the parent of a process that a scan has found.
func (r *reapers) trackParent(pid int, root string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trackLocked(pid, root, false)
	for i := range r.list {
		p := &r.list[i]
		p.isParent = p.isParent || p.pid == pid
	}
}

func (r *reapers) trackLocked(pid int, root string, isInJob bool) (isStepd bool) {
	if isInJob && !r.isSlurms(pid, root) {
		return false
	}
	for i := range r.list {
		p := &r.list[i]
		if p.pid == pid && r.look(p) {
			p.isInJob = p.isInJob || isInJob
			return true
		}
	}
	if !r.isDaemon(pid, root) {
		return false
	}
	r.settle()
	p := reaper{pid: pid, step: r.title(pid, root), alive: true, isInJob: isInJob}
	p.all, _ = r.peek.path(root).num(pid).str("/io").open(0)
	p.own, _ = r.peek.path(root).num(pid).str("/task").num(pid).str("/io").open(0)
	p.stat, _ = r.peek.path(root).num(pid).str("/stat").open(0)
	if !r.look(&p) { // it has exited, or we may not read it
		p.close()
		return true
	}
	r.list = append(r.list, p)
	return true
}

// drop removes the process pid from the list, because it is a process of the job.
func (r *reapers) drop(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(p reaper) bool {
		if p.pid != pid || !p.alive {
			return false
		}
		p.close()
		return true
	})
}

// look reads the bytes of p's tasks. It returns false if p has exited. The file of the
// process is read before the thread's: otherwise bytes that p writes between the two
// readings would count as its tasks'.
func (r *reapers) look(p *reaper) bool {
	if !p.alive {
		return false
	}
	all, ok := r.counters(&p.all)
	own, ok2 := r.counters(&p.own)
	p.alive = ok && ok2 && r.lookCPU(p)
	if p.alive {
		for k := range all {
			p.late[k] = max(p.late[k], all[k]-min(own[k], all[k]))
		}
	} else {
		p.close()
	}
	return p.alive
}

// settle drops the reapers that have begun and ended since the last scan, after their final
// readings. It keeps a reaper if a scan knows a child: the next scan subtracts the child's
// bytes from the reaper's. A tracker over its budget makes no scans, and a job can have
// thousands of steps.
func (r *reapers) settle() {
	r.list = slices.DeleteFunc(r.list, func(p reaper) bool {
		isKnown := p.isOld || p.isParent
		isCandidate := p.final && !isKnown
		isSettled := isCandidate && !r.look(&p)
		if isSettled {
			p.io.update(p.late)
			r.end(&p)
		}
		return isSettled
	})
}

// end adds the figures of an ended reaper to the sums.
func (r *reapers) end(p *reaper) {
	r.past.add(p.io.total())
	r.isBound = r.isBound || p.io.pending != counters{}
	r.endedCPU.add(p)
	r.endedList++
	if !p.final {
		r.noteBound(p.step)
	}
	p.close()
}

// lookCPU reads the CPU time of p and of the processes that it has waited for.
func (r *reapers) lookCPU(p *reaper) bool {
	b, err := r.peek.buf.Read(&p.stat)
	if err != nil {
		return false
	}
	stat, err := parsePidStat(b)
	if err != nil {
		return false
	}
	p.cpu, p.ownCPU = stat.Waited[0]+stat.Waited[1], stat.Own[0]+stat.Own[1]
	return true
}

// total is the CPU time that the job's cgroup has counted for p and its tasks, ticks.
func (p *reaper) total() uint64 {
	if p.isInJob {
		return p.cpu + p.ownCPU
	}
	return p.cpu
}

// waitedCPU is CPU time in ticks.
type waitedCPU struct {
	extern uint64 // of the reaper of the extern step
	others uint64
}

func (c *waitedCPU) add(p *reaper) {
	if p.step == externStep {
		c.extern += p.total()
	} else {
		c.others += p.total()
	}
}

// waited returns the CPU time of the processes that all reapers have waited for, and how many
// reapers there were.
func (r *reapers) waited() (cpu waitedCPU, n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cpu, n = r.endedCPU, r.endedList+uint64(len(r.list))
	for i := range r.list {
		cpu.add(&r.list[i])
	}
	return cpu, n
}

// among returns how many of pids are reapers of a step.
func (r *reapers) among(pids []int, step string) (n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		if p := &r.list[i]; p.step == step && slices.Contains(pids, p.pid) {
			n++
		}
	}
	return n
}

// isAnyNew reports whether a reaper of the step runs that is not in pids and was not known when the
// last scan began. If step is empty, a reaper of any step counts.
func (r *reapers) isAnyNew(pids []int, step string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		p := &r.list[i]
		isOfStep := step == "" || p.step == "" || p.step == step
		isNew := isOfStep && !p.isOld && !slices.Contains(pids, p.pid)
		if isNew && r.look(p) {
			return true
		}
	}
	return false
}

// isOf reports whether the process pid is the reaper of a step.
func (r *reapers) isOf(pid int, step string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.list, func(p reaper) bool { return p.pid == pid && p.step == step })
}

func (r *reapers) counters(f *procfile.File) (counters, bool) {
	b, err := r.peek.buf.Read(f)
	if err != nil {
		return counters{}, false
	}
	return parsePidIO(b)
}

// read reads the reaper of a step that has ended, or all reapers if step is empty.
func (r *reapers) read(step string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := false
	for i := range r.list {
		p := &r.list[i]
		if step != "" && p.step != "" && p.step != step {
			continue
		}
		if r.look(p) && step != "" {
			p.final = true
		}
		known = true
	}
	if step != "" && r.isFirstEnd(step) && !known {
		r.noteBound(step)
	}
}

// isFirstEnd records the step's end and reports whether it is the first.
func (r *reapers) isFirstEnd(step string) bool {
	if slices.Contains(r.steps[:], step) {
		return false
	}
	r.steps[r.ended%len(r.steps)] = step
	r.ended++
	return true
}

// noteBound adds an event: the bytes of a step are a lower bound.
func (r *reapers) noteBound(step string) {
	r.note(fmt.Sprintf("step %s: its slurmstepd ended before its final reading", cmp.Or(step, "unknown")))
}

// note adds an event: the bytes are a lower bound for this reason.
func (r *reapers) note(reason string) {
	r.notes = append(r.notes, rt.Event{
		Time: time.Now(), Kind: "job", Name: "bytes", Status: "estimated",
		Detail: reason + "; the bytes read and written are a lower bound",
	})
}

// isIncomplete reports whether bytes of ended processes have not appeared in a reaper, yet or until its end.
func (r *reapers) isIncomplete() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isBound || slices.ContainsFunc(r.list, func(p reaper) bool { return p.io.pending != counters{} })
}

// add adds an event of another kind to the notes.
func (r *reapers) add(e rt.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, e)
}

// take returns the notes and drops them.
func (r *reapers) take() []rt.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	notes := r.notes
	r.notes = nil
	return notes
}

// begin starts a scan. The scan uses the current values of the reapers, not later ones.
func (r *reapers) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		p := &r.list[i]
		p.gone, p.isOld = !r.look(p), true
		p.io.update(p.late)
	}
}

// addEnded gives the bytes of an ended process to the reaper pid. It returns false if pid is no
// reaper, or has waited for no ended process.
func (r *reapers) addEnded(pid int, bytes counters) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		p := &r.list[i]
		hasRisen := p.io.rise != counters{} || p.cpu > p.before
		isPossible := !p.gone || hasRisen
		if p.pid == pid && isPossible {
			p.io.ended.add(bytes)
			return true
		}
	}
	return false
}

// endScan ends a scan. It returns the bytes that are lost or belong to ended reapers, the
// bytes of the living ones, and whether there was any reaper.
func (r *reapers) endScan() (past, present counters, any bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	any = len(r.list) > 0 || r.endedList > 0
	living := r.list[:0]
	for _, p := range r.list {
		lost := p.io.reconcile()
		r.past.add(lost)
		r.isBound = r.isBound || lost != counters{}
		p.before = p.cpu
		if p.gone {
			r.end(&p)
			continue
		}
		present.add(p.io.total())
		living = append(living, p)
	}
	past, r.past = r.past, counters{}
	clear(r.list[len(living):])
	r.list = living
	return past, present, any
}

func (r *reapers) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		r.list[i].close()
	}
	r.list = nil
}

func (p *reaper) close() {
	_ = p.all.Close() // opened for reading: nothing can be lost
	_ = p.own.Close()
	_ = p.stat.Close()
}
