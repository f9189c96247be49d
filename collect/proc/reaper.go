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

// stepd is what Slurm's daemon of a step is called (/proc/<pid>/comm). It is no
// process of the job, but it collects the step's tasks when they end, and then its
// /proc/<pid>/io holds what they had read and written.
const stepd = "slurmstepd"

// reaper is a slurmstepd whose children are processes of the job.
//
// What it has collected is what its process has counted without its own main
// thread, which does its reading and writing. So it does not matter when it is first
// seen, as long as it is read once between the end of its last task and its own.
type reaper struct {
	pid   int
	step  string        // "" where its title does not tell
	all   procfile.File // /proc/<pid>/io
	own   procfile.File // /proc/<pid>/task/<pid>/io
	alive bool
	final bool     // read after the last of its tasks was collected
	gone  bool     // it was no more when the walk began
	io    account  // of the walks
	late  counters // what it had collected when it was last read
}

// reapers are read at other times than the job's processes: at the end of a step
// there are a few milliseconds before the daemon ends.
type reapers struct {
	mu    sync.Mutex
	list  []reaper
	peek  peek
	told  [64]string // the steps that ended last, read or not
	ended int
	notes []rt.Event
}

// adopt takes in the process pid if it is a slurmstepd that is not known yet.
func (r *reapers) adopt(pid int, root string) {
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
	var err error
	if p.all, err = r.peek.path(root).num(pid).str("/io").open(0); err != nil {
		return
	}
	if p.own, err = r.peek.path(root).num(pid).str("/task").num(pid).str("/io").open(0); err != nil {
		_ = p.all.Close() // opened for reading: nothing can be lost
		return
	}
	if !r.look(&p) {
		p.close()
		return
	}
	r.list = append(r.list, p)
}

// isDaemon tells a slurmstepd from its child that has not begun the task's program
// yet: that one has its name still, and will be a process of the job.
func (r *reapers) isDaemon(pid int, root string) bool {
	stat, err := r.peek.stat(root, pid)
	if err != nil || string(stat.Comm) != stepd {
		return false
	}
	parent, err := r.peek.stat(root, stat.PPID)
	return err != nil || string(parent.Comm) != stepd
}

// title is the step of a slurmstepd, which shows it as its arguments.
func (r *reapers) title(pid int, root string) string {
	b, err := r.peek.path(root).num(pid).str("/cmdline").read()
	if err != nil {
		return ""
	}
	return string(titleStep(b))
}

// titleStep reads the step from "slurmstepd: [12.batch]".
func titleStep(title []byte) []byte {
	_, id, ok := bytes.Cut(title, []byte(": ["))
	id, _, closed := bytes.Cut(id, []byte("]"))
	dot := bytes.LastIndexByte(id, '.')
	if !ok || !closed || dot < 0 {
		return nil
	}
	return id[dot+1:]
}

// drop forgets the process pid, which is one of the job.
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

// meet takes in those of the processes that are slurmstepds.
func (r *reapers) meet(pids []int, root string) {
	for _, pid := range pids {
		r.adopt(pid, root)
	}
}

// look reads what p has collected, and is false when p is gone. The whole comes
// first: what p itself writes in between must not look like its tasks'.
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

// read notes what the reapers have collected by now: the one of the step, whose
// tasks have ended, or all.
func (r *reapers) read(step string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := false
	for i := range r.list {
		p := &r.list[i]
		if step != "" && p.step != "" && p.step != step {
			continue
		}
		if ok := r.look(p); ok && step != "" {
			p.final = true
		}
		known = true
	}
	if step != "" && !r.remember(step) && !known {
		r.bound(step)
	}
}

// remember says whether the step's end was told before.
func (r *reapers) remember(step string) bool {
	if slices.Contains(r.told[:], step) {
		return true
	}
	r.told[r.ended%len(r.told)] = step
	r.ended++
	return false
}

// bound notes that not all of a step's bytes are known.
func (r *reapers) bound(step string) {
	r.notes = append(r.notes, rt.Event{
		Time: time.Now(), Kind: "job", Name: "bytes", Status: "estimated",
		Detail: fmt.Sprintf("step %s: its slurmstepd was gone before it was read a last time; the bytes read and written are a lower bound", cmp.Or(step, "unknown")),
	})
}

func (r *reapers) take() []rt.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	notes := r.notes
	r.notes = nil
	return notes
}

// begin starts a walk: what the reapers have collected by now counts in it, and
// nothing that they collect later.
func (r *reapers) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		p := &r.list[i]
		p.gone = !r.look(p)
		p.io.see(p.late)
	}
}

// of returns the account of the reaper pid that may have collected a process that
// is gone by now, or nil.
func (r *reapers) of(pid int) *account {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		if p := &r.list[i]; p.pid == pid && (!p.gone || p.io.rise != counters{}) {
			return &p.io
		}
	}
	return nil
}

// settle ends a walk. It returns what nobody has collected and what the reapers
// that are gone had, what those that live have, and whether there was any.
func (r *reapers) settle() (past, present counters, any bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	any = len(r.list) > 0
	living := r.list[:0]
	for _, p := range r.list {
		past.add(p.io.settle())
		if !p.gone {
			present.add(p.io.total())
			living = append(living, p)
			continue
		}
		past.add(p.io.total())
		if !p.final {
			r.bound(p.step)
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
