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

// ofQueue returns the summary of a job that Slurm says is running. It has no figures, and is of all nodes.
func ofQueue(q *accounting.Queued) *report.Summary {
	s := &report.Summary{OfQueue: true}
	r := &s.Run
	r.JobID.Set(q.JobID)
	r.Node, r.NodeList, r.User, r.Account, r.Partition, r.Meta.JobName = q.NodeList, q.NodeList, q.User, q.Account, q.Partition, q.Name
	r.NumNodes, r.Start, r.State = q.Nodes, q.Start, rt.StateRunning
	s.ElapsedSecs, s.CPU.Cores, s.CPU.CoresOf = q.RanSecs, q.Cores, "allocation"
	completeRun(s, q)
	return s
}

// completeRun adds what a node may not know of a run: its place in an array or in a heterogeneous job, and the time
// limit. It also adds what Slurm calls its state.
func completeRun(s *report.Summary, q *accounting.Queued) {
	r := &s.Run
	if array, task, isTask := partOf(q.Label, "_"); isTask {
		r.ArrayJobID.Set(array)
		r.ArrayTaskID.Set(task)
	}
	if job, offset, isComponent := partOf(q.Label, "+"); isComponent {
		r.HetJobID.Set(job)
		r.HetJobOffset.Set(offset)
	}
	isLimit := q.LimitSecs.Valid() && !q.Start.IsZero() && r.JobEndLimit.IsZero()
	if isLimit {
		r.JobStart = q.Start
		r.JobEndLimit = q.Start.Add(time.Duration(q.LimitSecs.Or(0) * float64(time.Second)))
	}
	if q.State != "RUNNING" {
		s.SlurmState = q.State
	}
	s.Label = r.Label()
}

// partOf returns the two numbers of a label, such as 12_3. It reports whether the label has them.
func partOf(label, separator string) (whole, part uint64, ok bool) {
	left, right, _ := strings.Cut(label, separator)
	whole, err1 := strconv.ParseUint(left, 10, 64)
	part, err2 := strconv.ParseUint(right, 10, 64)
	return whole, part, err1 == nil && err2 == nil
}

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
