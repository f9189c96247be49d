package report

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
)

// Step is what one step of the job used on this node.
type Step struct {
	Step  string `json:"step"`
	Ended bool   `json:"ended"` // its cgroup was removed
	// The bounds of the step's duration, because it began and ended between two readings. At least:
	// the time from the first to the last reading of the running step. At most: the time from the
	// reading of steps before the first one to the reading with its end. Absent if there is no such
	// reading.
	ElapsedAtLeastSecs rt.Opt[float64] `json:"elapsed_at_least_secs"`
	ElapsedAtMostSecs  rt.Opt[float64] `json:"elapsed_at_most_secs"`
	Figures
	Tasks []Task `json:"tasks,omitempty"`
	// The imbalance of the tasks: the largest value over the mean; absent below two tasks.
	CPUImbalance    rt.Opt[float64] `json:"cpu_imbalance"`
	MemoryImbalance rt.Opt[float64] `json:"memory_imbalance"`
}

// Task is one task of a step.
type Task struct {
	Task  uint64 `json:"task"` // its number on this node
	Ended bool   `json:"ended"`
	Figures
}

// Figures are what a step or a task used.
type Figures struct {
	Used
	UserSecs     rt.Opt[float64] `json:"user_secs"`
	SystemSecs   rt.Opt[float64] `json:"system_secs"`
	PeakMemory                   // from the kernel, else the highest reading
	AnonBytes    rt.Opt[uint64]  `json:"anonymous_bytes"`
	PageFaults   rt.Opt[uint64]  `json:"page_faults"`
	MajorFaults  rt.Opt[uint64]  `json:"major_faults"`
	OOMKills     rt.Opt[uint64]  `json:"oom_kills"`
	MaxProcesses rt.Opt[uint64]  `json:"max_processes"` // at least, see Processes
	ReadBytes    rt.Opt[uint64]  `json:"read_bytes"`
	WriteBytes   rt.Opt[uint64]  `json:"write_bytes"`
}

type stepKey struct {
	step string
	task rt.Opt[uint64]
}

// stepTally collects the readings of one step or task. Its cgroup begins with it, so that its
// counters are its totals.
type stepTally struct {
	before            rt.Opt[int64] // Boot of the reading of steps before the first
	first, last       int64         // Boot of the readings that have it and not its end
	end               int64         // Boot of the last reading that has it
	ended             bool
	cpu, user, system rt.Opt[uint64] // microseconds
	memory            rt.Opt[uint64] // highest reading; bytes
	Figures
}

type stepTallies map[stepKey]*stepTally

// add adds the steps of a reading. before is the Boot of the last one that read steps.
func (t stepTallies) add(before rt.Opt[int64], s *rt.Snapshot) {
	for i := range s.Steps {
		r := &s.Steps[i]
		key := stepKey{r.Step, r.Task}
		of := t[key]
		if of == nil {
			of = &stepTally{before: before, first: s.Boot, last: s.Boot}
			t[key] = of
		}
		of.add(r, s.Boot)
	}
}

// seqRange are snapshots by their Seq, from first up to and without end.
type seqRange struct{ first, end int64 }

// withoutSteps returns the snapshots in which the tracker omitted the running steps to keep within
// its budget. If the ledger does not have all of these events, it returns all snapshots.
func withoutSteps(events []rt.Event) (list []seqRange) {
	for i := range events {
		e := &events[i]
		from := int64(numberIn(e.Detail, "from snapshot %d"))
		isSteps := e.Kind == "tracker" && e.Name == "budget" && strings.HasSuffix(e.Detail, " steps")
		n := len(list)
		isOff := n > 0 && list[n-1].end == math.MaxInt64
		switch {
		case e.Kind == "spool" && e.Name == "tracker/budget":
			return []seqRange{{0, math.MaxInt64}}
		case !isSteps:
		case e.Status == "over" && !isOff:
			list = append(list, seqRange{from, math.MaxInt64})
		case e.Status == "ok" && isOff:
			list[n-1].end = from
		}
	}
	return list
}

func (t *stepTally) add(r *rt.StepReading, boot int64) {
	t.end, t.ended = boot, r.Ended
	if !r.Ended {
		t.last = boot
	}
	for _, p := range [...][2]*rt.Opt[uint64]{
		{&t.cpu, &r.CPUUsage}, {&t.user, &r.CPUUser}, {&t.system, &r.CPUSystem}, {&t.PageFaults, &r.PageFaults},
		{&t.MajorFaults, &r.MajorFaults}, {&t.OOMKills, &r.EventsOOMKill}, {&t.ReadBytes, &r.IOReadBytes}, {&t.WriteBytes, &r.IOWriteBytes},
		{&t.PeakBytes, &r.MemPeak}, {&t.memory, &r.MemCurrent}, {&t.AnonBytes, &r.Anon}, {&t.MaxProcesses, &r.Pids},
	} {
		raise(p[0], *p[1])
	}
}

func (t *stepTally) figures() Figures {
	f := t.Figures
	f.UsedSecs, f.UserSecs, f.SystemSecs = micros(t.cpu), micros(t.user), micros(t.system)
	if !f.PeakBytes.Valid() {
		f.PeakMemory = highestOf(t.memory)
	}
	f.MaxProcesses = atLeastOne(f.MaxProcesses, t.cpu)
	return f
}

// micros returns a number of millionths.
func micros(v rt.Opt[uint64]) rt.Opt[float64] {
	return rt.Map(v, func(us uint64) float64 { return float64(us) / 1e6 })
}

// list returns the steps in the order in which they began, numbered ones by their number.
func (t stepTallies) list(missed *missedEnds) []Step {
	var steps []Step
	for _, key := range t.keys() {
		of := t[key]
		figures := of.figures()
		missed.mark(&figures, key.step, count(key.task), of.ended)
		if n := len(steps); n == 0 || steps[n-1].Step != key.step {
			steps = append(steps, Step{Step: key.step})
		}
		s := &steps[len(steps)-1]
		task, isTask := key.task.Get()
		if isTask {
			s.Tasks = append(s.Tasks, Task{Task: task, Ended: of.ended, Figures: figures})
			continue
		}
		s.Ended, s.Figures = of.ended, figures
		s.ElapsedAtLeastSecs.Set(float64(of.last-of.first) / 1e9)
		if before, ok := of.before.Get(); ok {
			s.ElapsedAtMostSecs.Set(float64(of.end-before) / 1e9)
		}
	}
	for i := range steps {
		s := &steps[i]
		s.contain()
		s.CPUImbalance = imbalance(s.Tasks, func(f *Figures) rt.Opt[float64] { return f.UsedSecs })
		s.MemoryImbalance = imbalance(s.Tasks, func(f *Figures) rt.Opt[float64] { return rt.Scaled(f.PeakBytes, 1) })
	}
	return steps
}

// keys returns the keys in the order of the steps, each before its tasks.
func (t stepTallies) keys() []stepKey {
	return slices.SortedFunc(maps.Keys(t), func(a, b stepKey) int {
		return cmp.Or(compareSteps(a.step, b.step), cmp.Compare(rt.Scaled(a.task, 1).Or(-1), rt.Scaled(b.task, 1).Or(-1)))
	})
}

// compareSteps puts extern, batch and interactive before 0, 1, 2, ...
func compareSteps(a, b string) int {
	number := func(s string) float64 {
		if n, err := strconv.ParseUint(s, 10, 64); err == nil {
			return float64(n)
		}
		return -1
	}
	return cmp.Or(cmp.Compare(number(a), number(b)), -cmp.Compare(a, b))
}

// imbalance returns the largest value over the mean of two tasks or more, 1 if all are equal.
func imbalance(tasks []Task, of func(*Figures) rt.Opt[float64]) rt.Opt[float64] {
	var sum, top float64
	for i := range tasks {
		v, ok := of(&tasks[i].Figures).Get()
		if !ok {
			return rt.None[float64]()
		}
		sum, top = sum+v, max(top, v)
	}
	if len(tasks) < 2 || sum == 0 {
		return rt.None[float64]()
	}
	return rt.Some(top / (sum / float64(len(tasks))))
}

func most(tasks []Task, of func(*Figures) float64) Task {
	return slices.MaxFunc(tasks, func(a, b Task) int { return cmp.Compare(of(&a.Figures), of(&b.Figures)) })
}
