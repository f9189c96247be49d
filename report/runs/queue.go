package runs

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/slurm"
	"github.com/resource-tracker/rt/slurm/accounting"
)

// ofQueue returns the summary of a job that has nodes or has ended, as Slurm says. It has no figures, and is of all
// nodes.
func ofQueue(q *accounting.Queued) *report.Summary {
	s := &report.Summary{OfQueue: true}
	r := &s.Run
	r.JobID.Set(q.JobID)
	r.Node, r.NodeList, r.User, r.Account, r.Partition, r.Meta.JobName = q.NodeList, q.NodeList, q.User, q.Account, q.Partition, q.Name
	r.NumNodes, r.Start, r.State = q.Nodes, q.Start, rt.StateRunning
	s.RanSecs, s.CPU.Cores, s.CPU.CoresOf = q.RanSecs, q.Cores, "allocation"
	completeRun(s, q)
	return s
}

// completeRun adds what a node may not know of a run: its place in an array or in a heterogeneous job, and the time
// limit. It also adds what Slurm calls its state, and how a run ended that accounting has not completed.
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
	if isOutdated := q.HasEnded() && r.State == rt.StateRunning; isOutdated {
		endRun(s, q)
	}
	if q.IsRunning() {
		s.RanSecs = q.RanSecs
	}
	switch {
	case q.IsRunning() && q.State != "RUNNING":
		s.SlurmState = q.State
	case q.HasEnded() && r.State == rt.StateEnded && r.OutcomeSource != "sacct" && r.Step == "":
		r.Outcome, r.OutcomeSource = q.Outcome(), "squeue"
		s.SlurmState = report.SlurmStateOf(r.Outcome, q.State)
	}
	s.Label = r.Label()
}

// endRun ends a run that runs as far as is known here, and has ended as Slurm says. What it used until its last reading
// is the least that it used.
func endRun(s *report.Summary, q *accounting.Queued) {
	s.Run.State, s.Run.End, s.Run.Outcome = rt.StateEnded, q.End, rt.OutcomeUnknown
	s.Abandoned, s.SoFar = false, true
	if q.RanSecs.Valid() {
		s.ElapsedSecs = q.RanSecs
	}
	c := &s.CPU
	used, hasUsed := c.UsedSecs.Get()
	all := float64(c.Cores.Or(0)) * s.ElapsedSecs.Or(0)
	if hasUsed && c.CoresOf == "allocation" && all > 0 {
		c.AllocatedSecs, c.UsedPct, c.UsedMark = rt.Some(all), rt.Some(used/all*100), report.AtLeast
	}
	if s.Memory.PeakBytes.Valid() {
		s.Memory.PeakMark = report.AtLeast
	}
}

// partOf returns the two numbers of a label, such as 12_3. It reports whether the label has them.
func partOf(label, separator string) (whole, part uint64, ok bool) {
	left, right, _ := strings.Cut(label, separator)
	whole, err1 := strconv.ParseUint(left, 10, 64)
	part, err2 := strconv.ParseUint(right, 10, 64)
	return whole, part, err1 == nil && err2 == nil
}

// believeArrays gives the tasks of arrays the ids that another run or the queue proves, see slurm.BelieveArrays.
func (l *Collected) believeArrays(queue []accounting.Queued) {
	runs := make([]*rt.Run, len(l.Summaries))
	for i, s := range l.Summaries {
		runs[i] = &s.Run
	}
	slurm.BelieveArrays(runs, func(run *rt.Run, array uint64) bool {
		return slices.ContainsFunc(queue, func(q accounting.Queued) bool { return q.ArrayID() == rt.Some(array) && q.User == run.User })
	})
	for _, s := range l.Summaries {
		s.SetArray(&s.Run)
	}
}

// JoinQueue completes the runs of jobs that Slurm knows, and adds jobs that run or ran, as Slurm says, and that have no
// such run. It also adds a job that was requeued, as its next attempt.
func (l *Collected) JoinQueue(queue []accounting.Queued) {
	known := map[uint64][]*report.Summary{}
	for _, s := range l.Summaries {
		id := s.Run.JobID.Or(0)
		known[id] = append(known[id], s)
	}
	for i := range queue {
		q := &queue[i]
		if q.IsWaiting() {
			markRequeued(q, known[q.JobID])
		}
		isKnown := joinQueued(q, known[q.JobID])
		hasRun := q.HasEnded() && q.NodeList != ""
		if isMissing := (q.IsRunning() || hasRun) && !isKnown; isMissing {
			l.Summaries = append(l.Summaries, nextAttempt(q, known[q.JobID]))
		}
	}
	l.believeArrays(queue)
}

// joinQueued completes the runs of a job, and reports whether one of them is of the attempt that Slurm has.
func joinQueued(q *accounting.Queued, list []*report.Summary) (isKnown bool) {
	for _, s := range list {
		isRunning := s.Run.State == rt.StateRunning && !s.Abandoned
		isOfAttempt := q.HasEnded() && q.Describes(&s.Run)
		isNow := isOfAttempt || (isRunning && q.IsRunning())
		isKnown = isKnown || isNow || isRunning || s.Run.End.After(q.Start)
		if isNow {
			completeRun(s, q)
		}
	}
	return isKnown
}

// markRequeued notes in the runs of the last attempt of a job that the job waits again.
func markRequeued(q *accounting.Queued, list []*report.Summary) {
	last := uint64(0)
	for _, s := range list {
		last = max(last, s.Run.Attempt)
	}
	for _, s := range list {
		isLast := s.Run.Attempt == last && s.Run.State != rt.StateRunning
		if isLast && s.Run.User == q.User {
			s.SlurmState = report.Requeued
		}
	}
}

// nextAttempt returns the summary of a job that only Slurm has. list are its earlier attempts.
func nextAttempt(q *accounting.Queued, list []*report.Summary) *report.Summary {
	s := ofQueue(q)
	for _, other := range list {
		s.Run.Cluster = cmp.Or(s.Run.Cluster, other.Run.Cluster)
		s.Run.Attempt = max(s.Run.Attempt, other.Run.Attempt+1)
	}
	return s
}
