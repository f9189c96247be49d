package proc

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// stepd is the name of Slurm's daemon of a step (/proc/<pid>/comm). The daemon is not a process
// of the job, but it waits for the step's tasks, and its /proc/<pid>/io then includes the bytes
// that they have read and written.
const stepd = "slurmstepd"

// reaper is a slurmstepd that is the parent of processes of the job.
//
// The bytes of the tasks that it has waited for are the bytes of its process minus those of its
// main thread, because only that thread does I/O for slurmstepd itself. Therefore one reading
// between the end of its last task and its own end is sufficient.
type reaper struct {
	pid   int
	step  string        // "" if its title has none
	all   procfile.File // /proc/<pid>/io
	own   procfile.File // /proc/<pid>/task/<pid>/io
	alive bool
	final bool           // it was read after the end of its last task
	gone  bool           // it had ended when the scan began
	io    processCounter // of the scans
	late  counters       // the bytes of its tasks when it was last read
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
}

// track adds the process pid if it is a slurmstepd that is not known yet.
func (r *reapers) track(pid int, root string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		if p := &r.list[i]; p.pid == pid && r.look(p) {
			return
		}
	}
	if !r.isDaemon(pid, root) {
		return
	}
	p := reaper{pid: pid, step: r.title(pid, root), alive: true}
	p.all, _ = r.peek.path(root).num(pid).str("/io").open(0)
	p.own, _ = r.peek.path(root).num(pid).str("/task").num(pid).str("/io").open(0)
	if !r.look(&p) { // it has exited, or we may not read it
		p.close()
		return
	}
	r.list = append(r.list, p)
}

// isDaemon distinguishes a slurmstepd from its child that has not executed the task's program
// yet. Such a child has the same name and becomes a process of the job.
func (r *reapers) isDaemon(pid int, root string) bool {
	stat, err := r.peek.stat(root, pid)
	if err != nil || string(stat.Comm) != stepd {
		return false
	}
	parent, err := r.peek.stat(root, stat.PPID)
	return err != nil || string(parent.Comm) != stepd
}

// title returns the step of a slurmstepd, which is in its command line.
func (r *reapers) title(pid int, root string) string {
	b, _ := r.peek.path(root).num(pid).str("/cmdline").read()
	return string(titleStep(b))
}

// titleStep parses the step of "slurmstepd: [12.batch]".
func titleStep(title []byte) []byte {
	_, id, ok := bytes.Cut(title, []byte(": ["))
	id, _, closed := bytes.Cut(id, []byte("]"))
	dot := bytes.LastIndexByte(id, '.')
	if !ok || !closed || dot < 0 {
		return nil
	}
	return id[dot+1:]
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

// look reads the bytes of p's tasks. It returns false if p has exited. The file of the process
// is read before that of the thread: otherwise bytes that p writes between the two readings
// would count as its tasks'.
func (r *reapers) look(p *reaper) bool {
	if !p.alive {
		return false
	}
	all, ok := r.counters(&p.all)
	own, ok2 := r.counters(&p.own)
	p.alive = ok && ok2
	if p.alive {
		for k := range all {
			p.late[k] = max(p.late[k], all[k]-min(own[k], all[k]))
		}
	}
	return p.alive
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
	r.notes = append(r.notes, rt.Event{
		Time: time.Now(), Kind: "job", Name: "bytes", Status: "estimated",
		Detail: fmt.Sprintf("step %s: its slurmstepd ended before its final reading; the bytes read and written are a lower bound", cmp.Or(step, "unknown")),
	})
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
		p.gone = !r.look(p)
		p.io.update(p.late)
	}
}

// of returns the counter of the reaper pid; nil if it has waited for no ended process.
func (r *reapers) of(pid int) *processCounter {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		p := &r.list[i]
		hasRisen := p.io.rise != counters{}
		isPossible := !p.gone || hasRisen
		if p.pid == pid && isPossible {
			return &p.io
		}
	}
	return nil
}

// endScan ends a scan. It returns the bytes that are lost or were those of ended reapers,
// the bytes of the living ones, and whether there was any reaper.
func (r *reapers) endScan() (past, present counters, any bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	any = len(r.list) > 0
	living := r.list[:0]
	for _, p := range r.list {
		past.add(p.io.reconcile())
		if !p.gone {
			present.add(p.io.total())
			living = append(living, p)
			continue
		}
		past.add(p.io.total())
		if !p.final {
			r.noteBound(p.step)
		}
		p.close()
	}
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
}
