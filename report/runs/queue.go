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

// OfQueue returns the summary of a job that Slurm says is running. It has no figures.
func OfQueue(q *accounting.Queued, now time.Time) *report.Summary {
	s := &report.Summary{}
	r := &s.Run
	r.JobID.Set(q.JobID)
	array, task, isTask := strings.Cut(q.Label, "_")
	id, err1 := strconv.ParseUint(array, 10, 64)
	index, err2 := strconv.ParseUint(task, 10, 64)
	if isTask && err1 == nil && err2 == nil {
		r.ArrayJobID.Set(id)
		r.ArrayTaskID.Set(index)
	}
	r.Node, r.NodeList, r.User, r.Account, r.Partition, r.Meta.JobName = q.NodeList, q.NodeList, q.User, q.Account, q.Partition, q.Name
	r.Start, r.State = q.Start, rt.StateRunning
	if !q.Start.IsZero() {
		s.ElapsedSecs.Set(max(now.Sub(q.Start).Seconds(), 0))
	}
	if limit, ok := q.LimitSecs.Get(); ok {
		r.JobEndLimit = q.Start.Add(time.Duration(limit * float64(time.Second)))
	}
	s.Label = r.Label()
	s.CPU.Cores, s.CPU.CoresOf = q.Cores, "allocation"
	return s
}

// JoinQueue adds the jobs that Slurm says are running and that have no run which is running. It also adds a job that
// was requeued, as its next attempt. A job that has ended since is not added.
func (l *Collected) JoinQueue(queue []accounting.Queued, now time.Time) {
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
		s := OfQueue(q, now)
		isKnown := false
		for _, other := range known[q.JobID] {
			isRunning := other.Run.State == rt.StateRunning && !other.Abandoned
			hasEnded := other.Run.End.After(q.Start)
			isKnown = isKnown || isRunning || hasEnded
			s.Run.Cluster = cmp.Or(s.Run.Cluster, other.Run.Cluster)
			s.Run.Attempt = max(s.Run.Attempt, other.Run.Attempt+1)
		}
		if !isKnown {
			l.Summaries = append(l.Summaries, s)
		}
	}
}
