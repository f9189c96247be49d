package joblist

import (
	"cmp"
	"slices"

	"github.com/resource-tracker/rt/report"
)

// Lines returns the jobs of the runs that the filter selects, as report.Jobs sorts them. It can
// be called once: it removes the runs of steps from l.Summaries.
func (l *Runs) Lines(filter Filter) []Line {
	lines := []Line{}
	for _, j := range report.Jobs(wholeJobs(l.Summaries)) {
		if line := lineOf(j); filter.has(j, &line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// SortByWaste sorts lines by their unused core-hours, the most first.
func SortByWaste(lines []Line) {
	slices.SortStableFunc(lines, func(a, b Line) int { return -cmp.Compare(a.UnusedHours.Or(-1), b.UnusedHours.Or(-1)) })
}

// wholeJobs leaves out the run of a step if its job has a run on the same node at the same time,
// which includes the step. The time distinguishes the attempts: a step does not know its own, and
// attempts can share a number.
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

// endsBefore reports whether a run ended before another one began. A job begins before its
// tracker, which can be late.
func endsBefore(s, other *report.Summary) bool {
	begin := other.Run.Start
	if at := other.Run.JobStart; !at.IsZero() && at.Before(begin) {
		begin = at
	}
	return !s.Run.End.IsZero() && s.Run.End.Before(begin)
}
