package runs

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/slurm/accounting"
)

// ofQueue returns the summary of a job that Slurm says is running. It has no figures.
func ofQueue(q *accounting.Queued) *report.Summary {
	s := &report.Summary{}
	r := &s.Run
	r.JobID.Set(q.JobID)
	r.Node, r.NodeList, r.User, r.Account, r.Partition, r.Meta.JobName = q.NodeList, q.NodeList, q.User, q.Account, q.Partition, q.Name
	r.Start, r.State = q.Start, rt.StateRunning
	s.ElapsedSecs, s.CPU.Cores, s.CPU.CoresOf = q.RanSecs, q.Cores, "allocation"
	completeRun(s, q)
	return s
}

// completeRun adds what a node may not know of a run: its place in an array, the time limit, and that it is suspended.
func completeRun(s *report.Summary, q *accounting.Queued) {
	r := &s.Run
	array, task, isTask := strings.Cut(q.Label, "_")
	id, err1 := strconv.ParseUint(array, 10, 64)
	index, err2 := strconv.ParseUint(task, 10, 64)
	if isTask && err1 == nil && err2 == nil {
		r.ArrayJobID.Set(id)
		r.ArrayTaskID.Set(index)
	}
	isLimit := q.LimitSecs.Valid() && !q.Start.IsZero() && r.JobEndLimit.IsZero()
	if isLimit {
		r.JobStart = q.Start
		r.JobEndLimit = q.Start.Add(time.Duration(q.LimitSecs.Or(0) * float64(time.Second)))
	}
	if q.State == suspended {
		s.SlurmState = suspended
	}
	s.Label = r.Label()
}

// suspended is Slurm's word for the state of a job that is running and was stopped.
const suspended = "SUSPENDED"

// JoinQueue completes the runs of jobs that Slurm says are running, and adds such jobs without a run that is running. It
// also adds a job that was requeued, as its next attempt. A job that has ended since is not added.
func (l *Collected) JoinQueue(queue []accounting.Queued) {
	known := map[uint64][]*report.Summary{}
	for _, s := range l.Summaries {
		id := s.Run.JobID.Or(0)
		known[id] = append(known[id], s)
	}
	for i := range queue {
		q := &queue[i]
		if !q.IsRunning() {
			continue
		}
		s := ofQueue(q)
		isKnown := false
		for _, other := range known[q.JobID] {
			isRunning := other.Run.State == rt.StateRunning && !other.Abandoned
			hasEnded := other.Run.End.After(q.Start)
			isKnown = isKnown || isRunning || hasEnded
			if isRunning {
				completeRun(other, q)
			}
			s.Run.Cluster = cmp.Or(s.Run.Cluster, other.Run.Cluster)
			s.Run.Attempt = max(s.Run.Attempt, other.Run.Attempt+1)
		}
		if !isKnown {
			l.Summaries = append(l.Summaries, s)
		}
	}
}
