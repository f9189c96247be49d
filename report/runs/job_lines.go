package runs

import (
	"cmp"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

// Copy is a copy of a run with its figures.
type Copy struct {
	rt.Copy
	*report.Summary
}

// copyOf returns the copy of a run in the file of a spool; path can be empty if there is no other one.
func copyOf(path string, s *report.Summary) Copy {
	return Copy{rt.Copy{State: s.Run.State, HasRecord: true, LastReading: s.Record.Last, Readings: int64(s.Record.Readings), Place: path}, s}
}

// Join adds copies of runs, for example from a site. Of several copies of a run the best one stays.
func (l *Collected) Join(copies []Copy) {
	all := make([]Copy, 0, len(l.Summaries)+len(copies))
	for _, s := range l.Summaries {
		all = append(all, copyOf("", s))
	}
	l.Summaries = bestCopies(append(all, copies...))
	l.believeArrays(nil)
}

// bestCopies returns the summary of the best copy of each run, sorted from the oldest run.
func bestCopies(copies []Copy) (list []*report.Summary) {
	var best []Copy
	at := map[string][]int{} // by the name of the run: one for each user
	for _, c := range copies {
		name := c.Run.Cluster + "/" + c.Run.FileStem()
		k := slices.IndexFunc(at[name], func(i int) bool { return best[i].Run.IsSame(&c.Run) })
		if k < 0 {
			at[name] = append(at[name], len(best))
			best = append(best, c)
			continue
		}
		if i := at[name][k]; c.Better(&best[i].Copy) {
			best[i] = c
		}
	}
	for _, c := range best {
		list = append(list, c.Summary)
	}
	slices.SortStableFunc(list, func(a, b *report.Summary) int {
		return cmp.Or(a.Run.Start.Compare(b.Run.Start), strings.Compare(a.Run.FileStem(), b.Run.FileStem()))
	})
	return list
}

// Lines returns the jobs that the filter selects, in the order of report.Jobs, or with allAttempts
// the attempts that it selects. Call it only once: it removes the runs of steps from l.Summaries.
func (l *Collected) Lines(filter Filter, allAttempts bool, prices report.Prices) []Line {
	combine := report.Jobs
	if allAttempts {
		combine = report.Attempts
	}
	lines := []Line{}
	l.Summaries = WholeJobs(l.Summaries)
	for _, j := range combine(l.Summaries) {
		if line := LineOf(j, prices); filter.has(j, &line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// SortByWaste sorts lines by their waste in descending order.
func SortByWaste(lines []Line) {
	slices.SortStableFunc(lines, func(a, b Line) int { return -cmp.Compare(a.WasteHours.Or(-1), b.WasteHours.Or(-1)) })
}

// unnamed is the name of a job that srun made for resource-tracker. Only the run of its step has the name of the command.
const unnamed = "resource-tracker"

// WholeJobs removes a step's run if the job has a run on the same node at the same time: the job's run includes the
// step. Attempt numbers do not suffice for this: the run of a step does not have one, and two attempts can have the
// same.
func WholeJobs(list []*report.Summary) []*report.Summary {
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
		if step.Run.Step == "" {
			return false
		}
		jobs := whole[of(step)]
		at := slices.IndexFunc(jobs, func(job *report.Summary) bool { return !endsBefore(job, step) && !endsBefore(step, job) })
		if at < 0 {
			return false
		}
		if name := &jobs[at].Run.Meta.JobName; *name == unnamed {
			*name = step.Run.Meta.JobName
		}
		return true
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
