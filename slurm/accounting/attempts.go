package accounting

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// attemptSlack limits the difference of Slurm's clock, which has whole seconds, and the node's.
const attemptSlack = 30 * time.Second

// Describes reports whether the account has the run's job and cluster, and the run began during its
// attempt. A requeued job has several accounts, and ids are reused.
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

// Of returns the account of a run among the attempts of its job, nil for none. problem says why
// none is used although there is one.
//
// Slurm's times are whole seconds. If one attempt ends in the second in which another begins, both
// describe a run. Then the last attempt that began before the run is its own.
func Of(attempts []Account, run *rt.Run) (own *Account, problem string) {
	for i := range attempts {
		a := &attempts[i]
		if !a.Describes(run) {
			continue
		}
		if own == nil || isBetter(a, own, run) {
			own = a
		}
	}
	if own == nil {
		return nil, ""
	}
	for i := range attempts {
		if a := &attempts[i]; a != own && own.overlaps(a) {
			return nil, fmt.Sprintf("sacct has two records of job %d at the same time, so neither is used", own.JobID)
		}
	}
	if !own.isOfUser(run) {
		return nil, fmt.Sprintf("the record of job %d in sacct is of another user, so it is not used", own.JobID)
	}
	return own, ""
}

// isBetter reports whether a is rather the attempt of the run than b: the last that began before it, else
// the first.
func isBetter(a, b *Account, run *rt.Run) bool {
	isEarly, isOtherEarly := !a.Start.After(run.Start), !b.Start.After(run.Start)
	if isEarly != isOtherEarly {
		return isEarly
	}
	if isEarly {
		return a.Start.After(b.Start)
	}
	return a.Start.Before(b.Start)
}

// overlaps reports whether both were running at the same time, which the attempts of one job never are.
func (a *Account) overlaps(b *Account) bool {
	if a.Cluster != b.Cluster || a.JobID != b.JobID || a.Start.IsZero() || b.Start.IsZero() {
		return false
	}
	beginsBeforeEnd := b.End.IsZero() || a.Start.Before(b.End)
	endsAfterBegin := a.End.IsZero() || b.Start.Before(a.End)
	return beginsBeforeEnd && endsAfterBegin
}

// isOfUser reports whether nothing says that the run is another user's. The user id of a run is the
// Prolog's.
func (a *Account) isOfUser(run *rt.Run) bool {
	theirs, hasTheirs := a.UID.Get()
	ours, hasOurs := run.UID.Get()
	if hasTheirs && hasOurs {
		return theirs == ours
	}
	return a.User == "" || run.User == "" || a.User == run.User
}

// Attempts returns the accounts of one job, one for each attempt. If the nodes of a job change,
// Slurm ends its record as RESIZING and begins another one.
func Attempts(records []Account) []Account {
	slices.SortStableFunc(records, func(a, b Account) int {
		return cmp.Or(a.Start.Compare(b.Start), compareEnds(a.End, b.End))
	})
	var attempts []Account
	for i := range records {
		last := len(attempts) - 1
		if last >= 0 && attempts[last].isResizedTo(&records[i]) {
			attempts[last] = attempts[last].resizedTo(records[i])
			continue
		}
		attempts = append(attempts, records[i])
	}
	return attempts
}

// compareEnds has no end, which is zero, after all others.
func compareEnds(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return -a.Compare(b)
	}
	return a.Compare(b)
}

// isResizedTo reports whether the next record goes on with a resized job. It has the start of the job, or
// the time of the change.
func (a *Account) isResizedTo(next *Account) bool {
	isSameJob := a.JobID == next.JobID && a.Cluster == next.Cluster && a.UID == next.UID
	isNext := next.Start.Equal(a.Start) || next.Start.Equal(a.End)
	return a.State == "RESIZING" && !a.End.IsZero() && isSameJob && isNext
}

// resizedTo joins the record of a resized job and the next one. The job keeps its first nodes and
// memory, which its Prologs report.
func (a Account) resizedTo(next Account) Account {
	use := &next.Used
	if next.Start.Equal(a.End) && !next.Start.Equal(a.Start) {
		use.Elapsed = sum(use.Elapsed, a.Used.Elapsed)
	}
	use.CPU, use.User, use.System = sum(use.CPU, a.Used.CPU), sum(use.User, a.Used.User), sum(use.System, a.Used.System)
	if a.Used.MaxRSS.Or(0) > use.MaxRSS.Or(0) {
		use.MaxRSS, use.MaxRSSStep, use.MaxRSSNode = a.Used.MaxRSS, a.Used.MaxRSSStep, a.Used.MaxRSSNode
	}
	next.Start, next.Mem, next.NodeList = a.Start, a.Mem, a.NodeList
	next.JobName = cmp.Or(next.JobName, a.JobName)
	return next
}

// sum adds what is known.
func sum(a, b rt.Opt[uint64]) rt.Opt[uint64] {
	if !a.Valid() {
		return b
	}
	return rt.Some(a.Or(0) + b.Or(0))
}
