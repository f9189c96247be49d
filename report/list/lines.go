package list

import (
	"cmp"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

// Join adds runs of another source, such as a site. Of two copies of a run the one that has ended
// stays, or else the one with the later reading, or else the one that is there already.
func (l *Runs) Join(figures []*report.RunFigures) {
	at := map[string]int{}
	for i, s := range l.Summaries {
		at[s.Run.FileStem()] = i
	}
	for _, f := range figures {
		s := f.Summary()
		name := s.Run.FileStem()
		i, isThere := at[name]
		switch {
		case !isThere:
			at[name] = len(l.Summaries)
			l.Summaries = append(l.Summaries, s)
		case isBetter(s, l.Summaries[i]):
			l.Summaries[i] = s
		}
	}
	l.sort()
}

func isBetter(s, than *report.Summary) bool {
	ended, other := s.Run.State != rt.StateRunning, than.Run.State != rt.StateRunning
	if ended != other {
		return ended
	}
	return s.Record.Last.After(than.Record.Last)
}

// sort sorts the runs from the oldest.
func (l *Runs) sort() {
	slices.SortStableFunc(l.Summaries, func(a, b *report.Summary) int {
		return cmp.Or(a.Run.Start.Compare(b.Run.Start), strings.Compare(a.Run.FileStem(), b.Run.FileStem()))
	})
}

// Lines returns the jobs that the filter selects, in the order of report.Jobs, or with allAttempts
// the attempts that it selects. Call it only once: it removes the runs of steps from l.Summaries.
func (l *Runs) Lines(filter Filter, allAttempts bool) []Line {
	combine := report.Jobs
	if allAttempts {
		combine = report.Attempts
	}
	lines := []Line{}
	for _, j := range combine(wholeJobs(l.Summaries)) {
		if line := lineOf(j); filter.has(j, &line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// SortByWaste sorts lines by their unused core-hours in descending order.
func SortByWaste(lines []Line) {
	slices.SortStableFunc(lines, func(a, b Line) int { return -cmp.Compare(a.UnusedHours.Or(-1), b.UnusedHours.Or(-1)) })
}

// wholeJobs removes the run of a step if its job has a run on the same node at the same time,
// because that run includes the step. The times are compared because attempt numbers do not
// suffice: the run of a step does not have one, and two attempts can have the same.
func wholeJobs(list []*report.Summary) []*report.Summary {
	type place struct {
		cluster, node string
		job           uint64
	}
	of := func(s *report.Summary) place { return place{s.Run.Cluster, s.Run.Node, s.Run.JobID.Or(0)} }
	whole := map[place][]*report.Summary{}
	for _, s := range list {
		if s.Run.Step == "" {
			whole[of(s)] = append(whole[of(s)], s)
		}
	}
	return slices.DeleteFunc(list, func(step *report.Summary) bool {
		includes := func(job *report.Summary) bool { return !endsBefore(job, step) && !endsBefore(step, job) }
		return step.Run.Step != "" && slices.ContainsFunc(whole[of(step)], includes)
	})
}

// endsBefore reports whether a run ended before another one began. The other one begins with its
// job, because a tracker can be late.
func endsBefore(s, other *report.Summary) bool {
	begin := other.Run.Start
	if at := other.Run.JobStart; !at.IsZero() && at.Before(begin) {
		begin = at
	}
	return !s.Run.End.IsZero() && s.Run.End.Before(begin)
}
