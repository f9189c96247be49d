package live

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/cgroup"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/internal/procfile"
	"github.com/resource-tracker/rt/slurm/layout"
)

// Tree finds the processes of a tree. Each is a worker, the root is the first.
type Tree struct {
	tree *proc.Tree
	snap rt.Snapshot
	pids []int
}

// NewTree returns the workers of the tree below the process pid.
func NewTree(procfs, sysfs string, pid int) *Tree {
	return &Tree{tree: proc.NewTree(proc.NewFS(procfs, sysfs), pid)}
}

// Groups implements Groups. A tree that has ended has none.
func (t *Tree) Groups() ([]Group, error) {
	if err := t.tree.Read(&t.snap); err != nil {
		return nil, err
	}
	t.pids = t.tree.PIDs(t.pids[:0])
	out := make([]Group, len(t.pids))
	for i, pid := range t.pids {
		out[i] = Group{Key: strconv.Itoa(pid), PIDs: []int{pid}}
	}
	return out, nil
}

// Close closes the descriptor.
func (t *Tree) Close() error { return t.tree.Close() }

// Tasks finds the tasks of a job on this node. Each is a worker. If no task has a rank,
// the batch script is a worker, and so are the processes of a step that are in no task.
type Tasks struct {
	job    *cgroup.Job
	procfs string
	self   string // name of this program, as in /proc/<pid>/comm
	snap   rt.Snapshot
	pids   []int
	task   map[int]taskKey // by pid, for processes that had executed their own program at the last reading
}

type taskKey struct {
	step string
	task int64 // -1: none
}

// NewTasks returns the workers of a job, which the caller closes.
func NewTasks(procfs string, job *cgroup.Job) *Tasks {
	return &Tasks{job: job, procfs: procfs, self: nameOf(procfs, os.Getpid())}
}

// Groups implements Groups.
func (t *Tasks) Groups() ([]Group, error) {
	t.snap = rt.Snapshot{Steps: t.snap.Steps[:0]}
	err := t.job.Read(&t.snap)
	t.job.Written(&t.snap)
	t.pids = t.job.Procs(t.pids[:0])
	slices.Sort(t.pids)
	byKey, others := t.sortByTask()
	out := make([]Group, 0, len(byKey))
	for _, key := range workersOf(others) {
		out = append(out, Group{Key: fmt.Sprintf("%s/%d", key.step, key.task), PIDs: byKey[key], CPU: t.cpu(key)})
	}
	return out, err
}

// sender is the program that uploads for resource-tracker.
const sender = "rt-spool"

// sortByTask finds the task of each process, and the tasks with another program than ours.
func (t *Tasks) sortByTask() (byKey map[taskKey][]int, others map[taskKey]bool) {
	known := make(map[int]taskKey, len(t.pids))
	byKey, others = map[taskKey][]int{}, map[taskKey]bool{}
	for _, pid := range t.pids {
		key, ok := t.task[pid]
		ours := false
		if !ok {
			name := nameOf(t.procfs, pid) // before the task: a process that has executed its program moves to no other task
			if name == stepd {
				continue
			}
			key, ok = t.taskOf(pid)
			if !ok {
				continue // it has just ended
			}
			ours = name == t.self || name == sender // for now: it may be about to execute another program
		}
		byKey[key] = append(byKey[key], pid)
		if !ours {
			known[pid], others[key] = key, true
		}
	}
	t.task = known
	return byKey, others
}

// stepd is the name of Slurm's daemon of a step. Its children may still move to another cgroup.
const stepd = "slurmstepd"

// nameOf returns the name of a process, empty if it has ended.
func nameOf(procfs string, pid int) string { return procfile.Text(procfs, strconv.Itoa(pid), "comm") }

// workersOf returns the workers, sorted. The batch script is none if there are numbered steps.
func workersOf(tasks map[taskKey]bool) []taskKey {
	keys := slices.SortedFunc(maps.Keys(tasks), compareTasks)
	if slices.ContainsFunc(keys, numbered) {
		keys = slices.DeleteFunc(keys, func(k taskKey) bool { return !numbered(k) })
	}
	return keys
}

func numbered(k taskKey) bool {
	_, err := strconv.ParseUint(k.step, 10, 63)
	return err == nil && k.task >= 0
}

// Memory returns what the job's cgroup held at the last reading, and its limit, in bytes.
func (t *Tasks) Memory() (used, limit rt.Opt[uint64]) {
	return t.snap.Job.MemCurrent, t.snap.Job.MemLimit
}

// cpu returns the CPU time of the task's cgroup in microseconds.
func (t *Tasks) cpu(key taskKey) rt.Opt[uint64] {
	if key.task < 0 {
		return rt.None[uint64]() // a step includes its tasks
	}
	for i := range t.snap.Steps {
		s := &t.snap.Steps[i]
		if n, ok := s.Task.Get(); ok && !s.Ended && s.Step == key.step && int64(n) == key.task {
			return s.CPUUsage
		}
	}
	return rt.None[uint64]()
}

// taskOf returns the task of a process; false if it has ended.
func (t *Tasks) taskOf(pid int) (taskKey, bool) {
	text := procfile.Text(t.procfs, strconv.Itoa(pid), "cgroup")
	return parseTask(text), text != ""
}

// parseTask returns the step and task of a job in /proc/<pid>/cgroup.
func parseTask(text string) taskKey {
	p, _ := layout.ParseProcess(text)
	if n, ok := p.Task.Get(); ok {
		return taskKey{p.Step, int64(n)}
	}
	return taskKey{p.Step, -1}
}

// compareTasks orders numbered steps by number, and named ones after them.
func compareTasks(a, b taskKey) int {
	na, errA := strconv.ParseUint(a.step, 10, 63)
	nb, errB := strconv.ParseUint(b.step, 10, 63)
	switch {
	case errA == nil && errB != nil:
		return -1
	case errA != nil && errB == nil:
		return 1
	}
	return cmp.Or(cmp.Compare(na, nb), cmp.Compare(a.step, b.step), cmp.Compare(a.task, b.task))
}
