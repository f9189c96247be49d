package accounting

import (
	"cmp"
	"reflect"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// attemptSlack limits the difference of Slurm's clock, which has whole seconds, and the node's.
const attemptSlack = 30 * time.Second

// Describes reports whether the account is that of the run: of the same job of the same
// cluster, and of an attempt during which the run began. A requeued job has an account for
// each attempt, and Slurm reuses ids.
func (a *Account) Describes(run *rt.Run) bool {
	id, ok := run.JobID.Get()
	if a.Cluster != "" && run.Cluster != "" && !strings.EqualFold(a.Cluster, run.Cluster) {
		return false // a spool from elsewhere
	}
	if !ok || a.JobID != id || a.Start.IsZero() || run.Start.Before(a.Start.Add(-attemptSlack)) {
		return false
	}
	return a.End.IsZero() || run.Start.Before(a.End.Add(time.Second))
}

// Merge adds the account to its run, see Describes, and reports whether that changed the
// run. Names and ids of the run stay. The outcome is that of the account: only accounting
// distinguishes cancelled, time limit and a lost node, and it has the end of a job without
// a tracker.
func (a *Account) Merge(run *rt.Run) bool {
	before := *run
	slurm.Update(run, func(run *rt.Run) {
		for _, f := range [...]struct{ to, from *string }{
			{&run.QOS, &a.QOS}, {&run.Reservation, &a.Reservation}, {&run.User, &a.User},
			{&run.Account, &a.Account}, {&run.Partition, &a.Partition}, {&run.NodeList, &a.NodeList},
		} {
			*f.to = cmp.Or(*f.to, *f.from)
		}
		if !run.ArrayJobID.Valid() {
			run.ArrayJobID, run.ArrayTaskID = a.ArrayJobID, a.ArrayTaskID
		}
		if !run.HetJobOffset.Valid() && a.HetJobOffset.Valid() {
			run.HetJobID, run.HetJobOffset = a.HetJobID, a.HetJobOffset
		}
		if run.JobStart.IsZero() {
			run.JobStart = a.Start
		}
	})
	slurm.SetJobName(run, a.JobName, false)
	if a.Outcome != rt.OutcomeNone && run.Step == "" {
		run.Outcome, run.OutcomeSource = a.Outcome, "sacct"
		run.ExitCode, run.ExitSignal = a.Code, a.Signal
		if a.Derived.Valid() {
			run.DerivedExit = a.Derived
		}
		if run.End.IsZero() {
			run.End = a.End
		}
	}
	return !reflect.DeepEqual(before, *run)
}
