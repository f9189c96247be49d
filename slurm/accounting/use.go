package accounting

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

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
			if u := &used[j]; u.isRecord(a) {
				elapsed := a.Used.Elapsed
				a.Used = u.Used
				a.Used.Elapsed = elapsed
			}
		}
	}
}

// isRecord reports whether both are of the same record.
func (a *Account) isRecord(b *Account) bool {
	return a.JobID == b.JobID && a.Cluster == b.Cluster && a.DBIndex == b.DBIndex && a.Start.Equal(b.Start)
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

// Event is the ledger's event of how the job ended and of what it used; false if there is nothing of that.
func (a *Account) Event(now time.Time) (rt.Event, bool) {
	u := &a.Used
	var pairs []string
	state, by, isCancelled := strings.Cut(a.State, " by ")
	if isWord(state) {
		pairs = append(pairs, "state="+state)
	}
	if uid := parseNumber(by); isCancelled && uid.Valid() {
		pairs = append(pairs, fmt.Sprintf("cancelled_by_uid=%d", uid.Or(0)))
	}
	for _, p := range [...]struct {
		name  string
		value rt.Opt[uint64]
		unit  float64
	}{
		{"elapsed_secs", u.Elapsed, 1}, {"suspended_secs", a.suspended(), 1}, {"cpu_secs", u.CPU, 1e-6}, {"cpu_user_secs", u.User, 1e-6},
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

// suspended returns the seconds that an ended job was suspended, which sacct does not count as elapsed; absent
// for 0.
func (a *Account) suspended() rt.Opt[uint64] {
	elapsed, ok := a.Used.Elapsed.Get()
	hasSpan := ok && !a.Start.IsZero() && a.End.After(a.Start)
	if !hasSpan {
		return rt.None[uint64]()
	}
	span := uint64(a.End.Sub(a.Start) / time.Second)
	if span <= elapsed {
		return rt.None[uint64]()
	}
	return rt.Some(span - elapsed)
}
