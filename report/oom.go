package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
)

// OOMKill is the moment at which the kernel killed processes of the job for its memory.
type OOMKill struct {
	Time  time.Time `json:"time"`  // as the tracker noticed it, else of the first reading that shows it
	Kills uint64    `json:"kills"` // processes killed since the reading before
	Step  string    `json:"step,omitempty"`
	// Task is where the kill was counted; absent where no task has a cgroup.
	Task       rt.Opt[uint64] `json:"task"`
	LimitBytes rt.Opt[uint64] `json:"limit_bytes"`
	// BeforeBytes is the last reading of the job's memory before it.
	BeforeBytes rt.Opt[uint64] `json:"before_bytes"`
	// GrowthBytesPerSec is how fast it grew up to then, over a minute at most.
	GrowthBytesPerSec rt.Opt[float64] `json:"growth_bytes_per_sec"`
	// Biggest are processes of the last reading before it that looked at them, by
	// resident memory; those that the kill's own reading shows with more have that.
	Biggest []Process `json:"biggest"`

	after time.Time // of the reading before
}

const (
	maxOOMKills = 16        // that are described
	biggest     = 3         // processes that are named with each
	growthOver  = int64(60) // seconds
)

// oomTally watches for kills.
type oomTally struct {
	kills  []OOMKill
	recent []memoryAt // readings of the last minute
	walked []Process  // of the last reading that looked at processes
}

type memoryAt struct {
	boot  int64
	bytes uint64
}

// add takes a reading and the one before it.
func (t *oomTally) add(prev, s *rt.Snapshot) {
	if prev != nil {
		t.look(prev, s)
	}
	if len(s.Procs) > 0 {
		t.walked = processesOf(s)
	}
	if bytes, ok := s.Job.MemCurrent.Get(); ok {
		t.recent = append(t.recent, memoryAt{s.Boot, bytes})
		t.recent = slices.DeleteFunc(t.recent, func(m memoryAt) bool { return s.Boot-m.boot > growthOver*1e9 })
	}
}

func (t *oomTally) look(prev, s *rt.Snapshot) {
	now, ok := s.Job.EventsOOMKill.Get()
	before := prev.Job.EventsOOMKill.Or(0)
	if !ok || now <= before || len(t.kills) >= maxOOMKills {
		return
	}
	k := OOMKill{Time: time.Unix(0, s.Wall).UTC(), after: time.Unix(0, prev.Wall), Kills: now - before, LimitBytes: s.Job.MemLimit, BeforeBytes: prev.Job.MemCurrent}
	if !k.LimitBytes.Valid() {
		k.LimitBytes = prev.Job.MemLimit
	}
	if k.LimitBytes == rt.Some(rt.Unlimited) {
		k.LimitBytes.Clear() // the node's own memory was the limit
	}
	k.Step, k.Task = killedIn(prev, s)
	if n := len(t.recent); n > 1 {
		first, last := t.recent[0], t.recent[n-1]
		if secs := float64(last.boot-first.boot) / 1e9; secs > 0 {
			k.GrowthBytesPerSec.Set((float64(last.bytes) - float64(first.bytes)) / secs)
		}
	}
	k.Biggest = biggestOf(t.walked, processesOf(s))
	t.kills = append(t.kills, k)
}

// timed gives the kills the times at which the tracker noticed them.
func (t *oomTally) timed(events []rt.Event) []OOMKill {
	for i := range t.kills {
		k := &t.kills[i]
		at := slices.IndexFunc(events, func(e rt.Event) bool {
			return e.Kind == "job" && e.Name == "oom_kill" && e.Time.After(k.after) && e.Time.Before(k.Time)
		})
		if at >= 0 {
			k.Time = events[at].Time.UTC()
		}
	}
	return t.kills
}

// killedIn is the step, and the task where one has it, whose count has grown.
func killedIn(prev, s *rt.Snapshot) (step string, task rt.Opt[uint64]) {
	for i := range s.Steps {
		r := &s.Steps[i]
		before := uint64(0)
		for k := range prev.Steps {
			if p := &prev.Steps[k]; p.Step == r.Step && p.Task == r.Task {
				before = p.EventsOOMKill.Or(0)
			}
		}
		if r.EventsOOMKill.Or(0) > before && (step == "" || r.Task.Valid() && !task.Valid()) {
			step, task = r.Step, r.Task
		}
	}
	return step, task
}

func processesOf(s *rt.Snapshot) []Process {
	list := make([]Process, len(s.Procs))
	for i := range s.Procs {
		list[i].PID = s.Procs[i].PID
		list[i].add(&s.Procs[i])
	}
	return list
}

// biggestOf are the biggest of those before the kill, each with the most it had. Where
// nobody had looked before, they are those of the kill's own reading.
func biggestOf(before, at []Process) []Process {
	list := slices.Clone(before)
	if len(list) == 0 {
		list = at
	}
	for i := range list {
		for k := range at {
			if at[k].PID == list[i].PID && at[k].Comm == list[i].Comm && at[k].RSSBytes.Or(0) > list[i].RSSBytes.Or(0) {
				list[i].RSSBytes = at[k].RSSBytes
			}
		}
	}
	slices.SortFunc(list, func(a, b Process) int { return cmp.Or(byMemory(&a, &b), cmp.Compare(a.PID, b.PID)) })
	return list[:min(biggest, len(list))]
}
