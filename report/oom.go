package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
)

// OOMKill is the moment at which the kernel killed processes of the job for its memory.
type OOMKill struct {
	Time  time.Time `json:"time"`  // when the tracker noticed it, else of the first reading that shows it
	Kills uint64    `json:"kills"` // processes killed since the previous reading
	Step  string    `json:"step,omitempty"`
	// Task is the task that counted the kill; absent if tasks have no cgroup.
	Task       rt.Opt[uint64] `json:"task"`
	LimitBytes rt.Opt[uint64] `json:"limit_bytes"`
	// BeforeBytes is the last reading of the job's memory before the kill.
	BeforeBytes rt.Opt[uint64] `json:"before_bytes"`
	// BeforeAgeSecs is how long before the kill that reading was taken.
	BeforeAgeSecs rt.Opt[float64] `json:"before_age_secs"`
	// GrowthBytesPerSec is its growth until then, over a minute at most.
	GrowthBytesPerSec rt.Opt[float64] `json:"growth_bytes_per_sec"`
	// Biggest are processes of the last reading of processes before the kill, by resident
	// memory. If the reading of the kill itself shows more, that value is used.
	Biggest []Process `json:"biggest"`
	// BiggestAgeSecs is how long before the kill the processes were read; null if the largest one
	// has its value from the reading of the kill.
	BiggestAgeSecs rt.Opt[float64] `json:"biggest_age_secs"`

	after    time.Time // of the previous reading
	walkedAt time.Time // of the last reading of processes before the kill
}

const (
	maxOOMKills = 16        // bound of the kills in the list
	biggest     = 3         // processes per kill
	growthOver  = int64(60) // seconds
)

type oomTally struct {
	kills    []OOMKill
	recent   []memoryAt // readings of the last minute
	walked   []Process  // of the last reading of processes
	walkedAt time.Time
}

type memoryAt struct {
	boot  int64
	bytes uint64
}

// add takes a reading and the previous one.
func (t *oomTally) add(prev, s *rt.Snapshot) {
	if prev != nil {
		t.look(prev, s)
	}
	if len(s.Procs) > 0 {
		t.walked, t.walkedAt = processesOf(s), time.Unix(0, s.Wall)
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
	k := OOMKill{Time: time.Unix(0, s.Wall).UTC(), after: time.Unix(0, prev.Wall), Kills: now - before, LimitBytes: cmp.Or(s.Job.MemLimit, prev.Job.MemLimit), BeforeBytes: prev.Job.MemCurrent}
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
	if len(k.Biggest) > 0 && slices.Contains(t.walked, k.Biggest[0]) {
		k.walkedAt = t.walkedAt
	}
	t.kills = append(t.kills, k)
}

// timed sets the times at which the tracker noticed the kills.
func (t *oomTally) timed(events []rt.Event) []OOMKill {
	for i := range t.kills {
		k := &t.kills[i]
		at := slices.IndexFunc(events, func(e rt.Event) bool {
			return e.Kind == "job" && e.Name == "oom_kill" && e.Time.After(k.after) && e.Time.Before(k.Time)
		})
		if at >= 0 {
			k.Time = events[at].Time.UTC()
		}
		k.BeforeAgeSecs.Set(max(k.Time.Sub(k.after).Seconds(), 0))
		if !k.walkedAt.IsZero() {
			k.BiggestAgeSecs.Set(max(k.Time.Sub(k.walkedAt).Seconds(), 0))
		}
	}
	return t.kills
}

// killedIn returns the step, and the task if there is one, with a higher count of kills.
func killedIn(prev, s *rt.Snapshot) (step string, task rt.Opt[uint64]) {
	for i := range s.Steps {
		r := &s.Steps[i]
		before := uint64(0)
		if k := slices.IndexFunc(prev.Steps, func(p rt.StepReading) bool { return p.Step == r.Step && p.Task == r.Task }); k >= 0 {
			before = prev.Steps[k].EventsOOMKill.Or(0)
		}
		closer := r.Task.Valid() && !task.Valid()
		better := step == "" || closer
		if better && r.EventsOOMKill.Or(0) > before {
			step, task = r.Step, r.Task
		}
	}
	return step, task
}

func processesOf(s *rt.Snapshot) []Process {
	list := make([]Process, 0, len(s.Procs))
	for i := range s.Procs {
		if r := &s.Procs[i]; !isSlurms(r) {
			var p Process
			p.add(r)
			list = append(list, p)
		}
	}
	return list
}

// biggestOf returns the biggest processes before the kill, each with its highest value. If no earlier reading has
// processes, they are from the reading of the kill.
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
