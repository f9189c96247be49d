package accounting

import (
	"cmp"
	"reflect"
	"unicode"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// LacksArray reports whether the run has array ids only as a tag, which nothing has confirmed.
func LacksArray(run *rt.Run) bool { return run.Meta.Tags[slurm.EnvironArrayTag] != "" }

// Merge corrects its run with the account, and reports whether the run changed. A value of the
// account replaces the run's value, which is from a Prolog or a process of the job. User and
// account of the run stay, if they are set: they say who may read the run. The metadata that the
// user set stays too. The outcome is the account's. Only accounting distinguishes a cancellation, a
// time limit and a lost node, and knows the end of a job without a tracker.
func (a *Account) Merge(run *rt.Run) bool {
	before := *run
	slurm.Update(run, func(run *rt.Run) {
		for _, f := range [...]struct{ to, from *string }{
			{&run.QOS, &a.QOS}, {&run.Reservation, &a.Reservation}, {&run.Partition, &a.Partition}, {&run.NodeList, &a.NodeList},
		} {
			*f.to = cmp.Or(*f.from, *f.to)
		}
		run.User = cmp.Or(run.User, a.User)
		run.Account = cmp.Or(run.Account, a.Texts.Account)
		if a.HasID {
			run.ArrayJobID, run.ArrayTaskID = a.ArrayJobID, a.ArrayTaskID
			run.HetJobID, run.HetJobOffset = a.HetJobID, a.HetJobOffset
		}
		if !a.Start.IsZero() {
			run.JobStart = a.Start
		}
		if a.Limit > 0 && !a.Start.IsZero() {
			run.JobEndLimit = a.Start.Add(a.Limit)
		}
		if run.NumNodes == rt.Some[uint64](1) && a.Mem.Valid() {
			run.AllocMem = a.Mem // the part of one of several nodes is not known
		}
	})
	if a.HasID {
		delete(run.Meta.Tags, slurm.EnvironArrayTag)
	}
	if a.QOS != "" {
		delete(run.Meta.Tags, slurm.EnvironQOSTag)
	}
	if !isGarbled(a.JobName, run.Meta.JobName) {
		slurm.SetJobName(run, a.JobName, true)
	}
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

// isGarbled reports whether a name is the known one with "?" in place of characters. A database in
// latin1 lacks the characters of most languages.
func isGarbled(name, known string) bool {
	if name == known {
		return false
	}
	garbled := []rune(name)
	whole := []rune(known)
	if len(garbled) != len(whole) {
		return false
	}
	for i, c := range whole {
		isLost := garbled[i] == '?' && c > unicode.MaxASCII
		if garbled[i] != c && !isLost {
			return false
		}
	}
	return true
}
