package runs

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/slurm/accounting"
	"github.com/resource-tracker/rt/spool"
)

// Filter selects jobs. An empty field selects all.
type Filter struct {
	Users, Accounts, Partitions []string
	States                      []string  // values of State
	Name                        string    // a pattern of path.Match, in which * also matches a slash
	Jobs                        []string  // JOB arguments, see spool.Matches
	Since, Until                time.Time // the job ran after Since and before Until
}

// slurmStates are Slurm's words for states, and slurmOnly those that no state means: jobs have them in SlurmState.
var (
	slurmStates = map[string]string{
		"completed": string(rt.OutcomeFinished), "out_of_memory": string(rt.OutcomeOOM), "cd": string(rt.OutcomeFinished), "f": string(rt.OutcomeFailed),
		"to": string(rt.OutcomeTimeout), "ca": string(rt.OutcomeCancelled), "r": string(rt.StateRunning), "pd": "pending", "nf": "node_fail", "pr": "preempted",
		"bf": "boot_fail", "dl": "deadline", "s": "suspended", "cf": "configuring", "cg": "completing", "running?": abandoned,
	}
	slurmOnly = []string{
		"pending", "suspended", "configuring", "completing", "preempted", "node_fail", "boot_fail", "deadline", "launch_failed", "revoked", "special_exit",
	}
)

// States are the states of jobs.
var States = []string{
	string(rt.StateRunning), abandoned, string(rt.OutcomeFinished), string(rt.OutcomeFailed), string(rt.OutcomeCancelled), string(rt.OutcomeTimeout),
	string(rt.OutcomeTerminated), string(rt.OutcomeOOM), string(rt.OutcomeLost), string(rt.OutcomeUnknown),
}

// State returns the state that a word in lower case names: one of States, or one that only Slurm has. Slurm's short
// codes and the words of tables name states too. State reports whether the word names one.
func State(word string) (string, bool) {
	if state, ok := slurmStates[word]; ok {
		return state, true
	}
	for _, state := range States {
		if word == report.StateWords(rt.Outcome(state)) {
			return state, true
		}
	}
	return word, slices.Contains(States, word) || slices.Contains(slurmOnly, word)
}

// NamePart returns a text that all names have that match the pattern Name; empty if there is none.
func (f *Filter) NamePart() (longest string) {
	if strings.ContainsRune(f.Name, '[') {
		return ""
	}
	for part := range strings.FieldsFuncSeq(f.Name, func(c rune) bool { return strings.ContainsRune(`*?\`, c) }) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

// has reports whether the filter selects a job.
func (f *Filter) has(j *report.JobSummary, line *Line) bool {
	for _, one := range [...]struct {
		list []string
		is   string
	}{{f.Users, j.User}, {f.Accounts, j.Account}, {f.Partitions, j.Partition}} {
		if len(one.list) > 0 && !slices.Contains(one.list, one.is) {
			return false
		}
	}
	if len(f.States) > 0 && !f.hasState(line) {
		return false
	}
	if len(f.Jobs) > 0 && !slices.ContainsFunc(f.Jobs, func(job string) bool { return spool.Matches(&j.Runs[0].Run, job) }) {
		return false
	}
	if f.Name != "" && !matches(f.Name, j.Name) {
		return false
	}
	isRunning := line.State == string(rt.StateRunning)
	endedBefore := !f.Since.IsZero() && !isRunning && line.end().Before(f.Since)
	beganAfter := !f.Until.IsZero() && j.Start.After(f.Until)
	return !endedBefore && !beganAfter
}

// HasWaiting reports whether the filter selects a job that waits.
func (f *Filter) HasWaiting(q *accounting.Queued) bool {
	for _, one := range [...]struct {
		list []string
		is   string
	}{{f.Users, q.User}, {f.Accounts, q.Account}, {f.Partitions, q.Partition}, {f.States, "pending"}} {
		if len(one.list) > 0 && !slices.Contains(one.list, one.is) {
			return false
		}
	}
	isNamed := len(f.Jobs) == 0 || slices.ContainsFunc(f.Jobs, q.Matches)
	isMatch := f.Name == "" || matches(f.Name, q.Name)
	return isNamed && isMatch && q.IsWaiting()
}

// matches reports whether a name matches a pattern of path.Match. The name of a job is no path: a slash in it is a
// character like others.
func matches(pattern, name string) bool {
	const other = "\x00" // no name has it
	isMatch, err := path.Match(strings.ReplaceAll(pattern, "/", other), strings.ReplaceAll(name, "/", other))
	return err == nil && isMatch
}

func (f *Filter) hasState(line *Line) bool {
	ofSlurm, _, _ := strings.Cut(strings.ToLower(line.SlurmState), " ")
	isOfSlurm := ofSlurm != "" && slices.Contains(f.States, ofSlurm)
	return isOfSlurm || slices.Contains(f.States, line.State)
}
