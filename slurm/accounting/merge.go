package accounting

import (
	"cmp"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// attemptSlack limits the difference of Slurm's clock, which has whole seconds, and the node's.
const attemptSlack = 30 * time.Second

// Describes reports whether the account is that of the run: of its job and cluster, and of the
// attempt during which it began. A requeued job has several accounts, and ids are reused.
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

// LacksArray reports whether the run has array ids only as a tag, which nothing has confirmed.
func LacksArray(run *rt.Run) bool { return run.Meta.Tags[slurm.EnvironArrayTag] != "" }

// Merge corrects its run with the account, and reports whether that changed the run. A value of the
// account replaces that of the run, which is from a Prolog or from a process of the job. The
// metadata that the user has set stays. The outcome is that of the account: only accounting
// distinguishes a cancellation, a time limit and a lost node, and has the end of a job without a
// tracker.
func (a *Account) Merge(run *rt.Run) bool {
	before := *run
	slurm.Update(run, func(run *rt.Run) {
		for _, f := range [...]struct{ to, from *string }{
			{&run.QOS, &a.QOS}, {&run.Reservation, &a.Reservation}, {&run.User, &a.User},
			{&run.Account, &a.Account}, {&run.Partition, &a.Partition}, {&run.NodeList, &a.NodeList},
		} {
			*f.to = cmp.Or(*f.from, *f.to)
		}
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
	slurm.SetJobName(run, a.JobName, true)
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

// AccountUse is what a job has used on all its nodes according to accounting.
type AccountUse struct {
	Elapsed rt.Opt[uint64] // seconds, ElapsedRaw
	// Microseconds of CPU time that wait(2) returned to slurmstepd: TotalCPU, UserCPU,
	// SystemCPU.
	CPU, User, System rt.Opt[uint64]
	// MaxRSS is the largest of the job's steps, in bytes: the most resident memory that a
	// sample of one task and its descendants had (JobAcctGatherFrequency).
	MaxRSS     rt.Opt[uint64]
	MaxRSSStep string // "0", "batch"
	MaxRSSNode string
}

// MergeUse adds to the accounts of one job what the same attempts have used.
func MergeUse(accounts, used []Account) {
	for i := range accounts {
		a := &accounts[i]
		for j := range used {
			if u := &used[j]; u.JobID == a.JobID && u.Cluster == a.Cluster && u.Start.Equal(a.Start) {
				elapsed := a.Used.Elapsed
				a.Used = u.Used
				a.Used.Elapsed = elapsed
			}
		}
	}
}

// set sets the named field of a job's line; other names are ignored.
func (u *AccountUse) set(name, value string) {
	switch name {
	case "ElapsedRaw":
		if n, err := strconv.ParseUint(value, 10, 32); err == nil {
			u.Elapsed.Set(n)
		}
	case "TotalCPU":
		u.CPU = sacctCPU(value)
	case "UserCPU":
		u.User = sacctCPU(value)
	case "SystemCPU":
		u.System = sacctCPU(value)
	}
}

// addStep adds the memory of a step to its job, and is false for the line of a job.
func addStep(header, values []string, accounts []Account) bool {
	var id, step, node string
	var rss rt.Opt[uint64]
	for i, name := range header {
		switch name {
		case "JobIDRaw":
			id, step, _ = strings.Cut(values[i], ".")
		case "MaxRSS":
			rss = sacctBytes(values[i])
		case "MaxRSSNode":
			node = values[i]
		}
	}
	if step == "" {
		return false
	}
	if len(accounts) == 0 {
		return true
	}
	a := &accounts[len(accounts)-1]
	n, ok := rss.Get()
	isLargest := ok && strconv.FormatUint(a.JobID, 10) == id && n > a.Used.MaxRSS.Or(0)
	isNode := node == "" || isWord(node)
	if isLargest && isNode && isWord(step) {
		a.Used.MaxRSS, a.Used.MaxRSSStep, a.Used.MaxRSSNode = rss, step, node
	}
	return true
}

// isWord reports whether a name can stand in a line of pairs.
func isWord(name string) bool {
	return slurm.Printable(name, slurm.MaxValue) && !strings.ContainsAny(name, " =")
}

// sacctCPU parses [DD-[HH:]]MM:SS[.mmm] as microseconds.
func sacctCPU(text string) rt.Opt[uint64] {
	days, clock, ok := strings.Cut(text, "-")
	if !ok {
		days, clock = "0", text
	}
	whole, err := strconv.ParseUint(days, 10, 16)
	parts := strings.Split(clock, ":")
	if err != nil || len(parts) < 2 || len(parts) > 3 {
		return rt.None[uint64]()
	}
	minutes := whole * 24 * 60
	for i, unit := range []uint64{60, 1}[3-len(parts):] {
		n, err := strconv.ParseUint(parts[i], 10, 16)
		if err != nil {
			return rt.None[uint64]()
		}
		minutes += n * unit
	}
	seconds, err := strconv.ParseFloat(parts[len(parts)-1], 64)
	isInRange := seconds >= 0 && seconds < 1e6 // NaN is not
	if err != nil || !isInRange {
		return rt.None[uint64]()
	}
	return rt.Some(minutes*60e6 + uint64(math.Round(seconds*1e6)))
}

// sacctBytes parses a size with its unit: 52600K, 100.04M. K is 1024.
func sacctBytes(text string) rt.Opt[uint64] {
	unit := 1.0
	if n := len(text); n > 0 {
		if i := strings.IndexByte("KMGTP", text[n-1]); i >= 0 {
			unit, text = math.Pow(1024, float64(i+1)), text[:n-1]
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	isInRange := v >= 0 && v*unit < 1<<60 // NaN is not
	if err != nil || !isInRange {
		return rt.None[uint64]()
	}
	return rt.Some(uint64(math.Round(v * unit)))
}

// Event is the ledger's event of what the job used; false if there is nothing of that.
func (a *Account) Event(now time.Time) (rt.Event, bool) {
	u := &a.Used
	var pairs []string
	for _, p := range [...]struct {
		name  string
		value rt.Opt[uint64]
		unit  float64
	}{
		{"elapsed_secs", u.Elapsed, 1}, {"cpu_secs", u.CPU, 1e-6}, {"cpu_user_secs", u.User, 1e-6},
		{"cpu_system_secs", u.System, 1e-6}, {"max_rss_bytes", u.MaxRSS, 1},
	} {
		if n, ok := p.value.Get(); ok {
			pairs = append(pairs, p.name+"="+strconv.FormatFloat(math.Round(float64(n)*p.unit*1e6)/1e6, 'f', -1, 64))
		}
	}
	if u.MaxRSSStep != "" {
		pairs = append(pairs, "max_rss_step="+u.MaxRSSStep)
	}
	if u.MaxRSSNode != "" {
		pairs = append(pairs, "max_rss_node="+u.MaxRSSNode)
	}
	return rt.Event{Time: now, Kind: "job", Name: "sacct", Status: "ok", Detail: strings.Join(pairs, " ")}, len(pairs) > 0
}
