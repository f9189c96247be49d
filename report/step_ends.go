package report

import (
	"regexp"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// missedEnds are the steps and tasks whose end was not read: their figures are of the last reading before.
type missedEnds struct {
	isAll   bool // the ledger does not have all of these events
	events  []missedEnd
	isUnder bool // the run was not read to its end: a step that has not ended may have used more
}

// missedEnd is an event of the ledger.
type missedEnd struct {
	step       string
	tasks      []string // their numbers; empty: the step itself
	isCPUKnown bool     // the CPU time of the task is what its step used beyond the other tasks
}

// missedText is the text of an event about a step, or about tasks of it.
var missedText = regexp.MustCompile(`^the end of (?:task ([0-9,]+) of )?step (\S+) was not read;`)

// missedEndsOf returns what the ledger says of the ends of steps and tasks.
func missedEndsOf(events []rt.Event) (m missedEnds) {
	for i := range events {
		e := &events[i]
		if e.Kind == "spool" && e.Name == "job/tasks" {
			m.isAll = true
		}
		if one, ok := missedEndOf(e); ok {
			m.events = append(m.events, one)
		}
	}
	return m
}

func missedEndOf(e *rt.Event) (one missedEnd, ok bool) {
	if e.Kind != "job" || e.Name != "tasks" {
		return one, false
	}
	found := missedText.FindStringSubmatch(e.Detail)
	if found == nil {
		return one, false
	}
	one = missedEnd{step: found[2], isCPUKnown: strings.Contains(e.Detail, "; its CPU time is what")}
	if found[1] != "" {
		one.tasks = strings.Split(found[1], ",")
	}
	return one, true
}

// mark marks the figures of a step, or of its task with this number; the number of a step is "-".
func (m *missedEnds) mark(f *Figures, step, task string, hasEnded bool) {
	isEarly := m.isUnder && !hasEnded
	if m.isAll || isEarly {
		f.markAtLeast()
		return
	}
	for i := range m.events {
		e := &m.events[i]
		isOfStep := task == "-" && len(e.tasks) == 0
		isOfTask := slices.Contains(e.tasks, task)
		isMeant := isOfStep || isOfTask
		if e.step != step || !isMeant {
			continue
		}
		exact := f.Used
		f.markAtLeast()
		if e.isCPUKnown {
			f.Used = exact
		}
	}
}

// markAtLeast marks the figures that were read.
func (f *Figures) markAtLeast() {
	if f.UsedSecs.Valid() {
		f.UsedMark = AtLeast
	}
	if f.PeakBytes.Valid() {
		f.PeakMark = AtLeast
	}
}

// contain raises the figures of a step that are below the sums of its tasks, which were read later.
func (s *Step) contain() {
	sum := func(of func(*Figures) rt.Opt[float64]) rt.Opt[float64] {
		return sumOf(s.Tasks, func(t Task) rt.Opt[float64] { return of(&t.Figures) })
	}
	const rounding = 1e-6 // seconds for each task: counters have whole microseconds
	used := sum(func(f *Figures) rt.Opt[float64] { return f.UsedSecs })
	if used.Or(0) > s.UsedSecs.Or(0)+rounding*float64(len(s.Tasks)) {
		s.Used = Used{used, AtLeast}
		s.UserSecs = sum(func(f *Figures) rt.Opt[float64] { return f.UserSecs })
		s.SystemSecs = sum(func(f *Figures) rt.Opt[float64] { return f.SystemSecs })
	}
	for i := range s.Tasks {
		t := &s.Tasks[i].Figures
		if t.PeakBytes.Or(0) > s.PeakBytes.Or(0) {
			s.PeakMemory = PeakMemory{t.PeakBytes, AtLeast}
		}
		raise(&s.AnonBytes, t.AnonBytes)
		raise(&s.MaxProcesses, t.MaxProcesses)
	}
	for _, of := range [...]func(*Figures) *rt.Opt[uint64]{
		func(f *Figures) *rt.Opt[uint64] { return &f.PageFaults },
		func(f *Figures) *rt.Opt[uint64] { return &f.MajorFaults },
		func(f *Figures) *rt.Opt[uint64] { return &f.OOMKills },
		func(f *Figures) *rt.Opt[uint64] { return &f.ReadBytes },
		func(f *Figures) *rt.Opt[uint64] { return &f.WriteBytes },
	} {
		raise(of(&s.Figures), whole(sum(func(f *Figures) rt.Opt[float64] { return rt.Scaled(*of(f), 1) })))
	}
}
