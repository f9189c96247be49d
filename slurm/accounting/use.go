package accounting

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// AccountUse is what accounting says that a job has used, on all of its nodes.
type AccountUse struct {
	Elapsed rt.Opt[uint64] // seconds, ElapsedRaw
	// Microseconds of CPU time, as slurmstepd collected it of its tasks by wait(2):
	// TotalCPU, UserCPU, SystemCPU.
	CPU, User, System rt.Opt[uint64]
	// MaxRSS is the largest of the job's steps, in bytes: the most that one task and
	// its descendants were seen to have resident, which is looked at from time to
	// time (JobAcctGatherFrequency).
	MaxRSS     rt.Opt[uint64]
	MaxRSSStep string // "0", "batch"
	MaxRSSNode string
}

// MergeUse completes the accounts of one job by what the same attempts of it have used.
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

// set takes the named field of a job's line; others are passed over.
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

// addStep takes the memory of a step, and is false where the line is a job's. The
// step of a job whose own line could not be read is passed over.
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
	if ok && strconv.FormatUint(a.JobID, 10) == id && n > a.Used.MaxRSS.Or(0) && isWord(step) && (node == "" || isWord(node)) {
		a.Used.MaxRSS, a.Used.MaxRSSStep, a.Used.MaxRSSNode = rss, step, node
	}
	return true
}

// isWord says whether a name is safe in a line of pairs.
func isWord(name string) bool {
	return slurm.Printable(name, slurm.MaxValue) && !strings.ContainsAny(name, " =")
}

// sacctCPU reads [DD-[HH:]]MM:SS[.mmm] as microseconds.
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
	if err != nil || !(seconds >= 0 && seconds < 1e6) {
		return rt.None[uint64]()
	}
	return rt.Some(minutes*60e6 + uint64(math.Round(seconds*1e6)))
}

// sacctBytes reads a size with its unit, 1024 of the one below: 52600K, 100.04M.
func sacctBytes(text string) rt.Opt[uint64] {
	unit := 1.0
	if n := len(text); n > 0 {
		if i := strings.IndexByte("KMGTP", text[n-1]); i >= 0 {
			unit, text = math.Pow(1024, float64(i+1)), text[:n-1]
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v*unit < 1<<60) {
		return rt.None[uint64]()
	}
	return rt.Some(uint64(math.Round(v * unit)))
}

// Event is what the account says for a run's ledger, false where it says nothing
// of what the job used.
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
