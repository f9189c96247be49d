package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// others knows how many other tasks of our step on this node had not ended at the
// newest reading. They have become their commands, and Slurm waits for our status:
// nobody reads on. A process that we left behind would be in the step's cgroup.
// Slurm kills it with the step, without a SIGTERM, and holds the step for a second
// to see it gone; one that ends by itself as soon as the last task has ended is in
// time for that in some steps and not in others.
type others struct {
	step    string // of srun a number
	at      time.Time
	told    bool // the reading tells of the step's tasks
	running int  // tasks that have processes, ours among them
}

// Put implements collect.Sink.
func (o *others) Put(s *rt.Snapshot) error {
	o.at, o.told, o.running = time.Unix(0, s.Wall).UTC(), false, 0
	for i := range s.Steps {
		r := &s.Steps[i]
		if r.Step != o.step || !r.Task.Valid() || r.Ended {
			continue
		}
		if n, ok := r.Pids.Get(); ok {
			o.told = true
			if n > 0 {
				o.running++
			}
		}
	}
	return nil
}

// event tells the ledger of tasks that the record does not have, or not to their
// ends. here is how many the step has on this node.
func (o *others) event(here rt.Opt[uint64]) (rt.Event, bool) {
	e := rt.Event{Time: o.at, Kind: "job", Name: "tasks"}
	n := o.running - 1
	switch {
	case o.told:
		e.Status = "unseen"
		e.Detail = fmt.Sprintf("%s of step %s on this node had not ended when the tracked one did: what was used after that is not in the record",
			otherTasks(n), o.step)
	default:
		n = int(here.Or(1)) - 1
		e.Status = "absent"
		e.Detail = fmt.Sprintf("%s of step %s on this node not in the record: no cgroup was found that tells of them", otherTasks(n), o.step)
	}
	return e, n > 0
}

func otherTasks(n int) string {
	if n == 1 {
		return "1 other task"
	}
	return strconv.Itoa(n) + " other tasks"
}

// noteOthers tells the ledger of the tasks that became their commands because the
// turn is ours.
func (t *tracking) noteOthers() {
	if t.turn.file == nil {
		return
	}
	if e, ok := t.others.event(slurm.StepTasksHere(slurm.NewEnv(os.Environ()))); ok {
		t.note(e)
	}
}
