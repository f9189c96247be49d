package accounting

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// Account is what Slurm's accounting says of one attempt of a job: one line of
// sacct. Times are zero where there is none yet.
type Account struct {
	Cluster      string
	JobID        uint64 // JobIDRaw
	ArrayJobID   rt.Opt[uint64]
	ArrayTaskID  rt.Opt[uint64]
	HetJobID     rt.Opt[uint64]
	HetJobOffset rt.Opt[uint64]
	State        string     // as sacct has it: "COMPLETED", "CANCELLED by 1001"
	Outcome      rt.Outcome // what State means; OutcomeNone while the job goes on
	Code, Signal rt.Opt[int64]
	Derived      rt.Opt[int64]
	Start, End   time.Time
	QOS          string
	Reservation  string
	User         string
	Account      string
	Partition    string
	NodeList     string
	JobName      string // empty while slurmdbd has not heard of it

	Used AccountUse
}

// sacctFields are asked for in this order. JobName is the last, because it alone
// may hold the separator.
const sacctFields = "Cluster,JobIDRaw,JobID,State,ExitCode,DerivedExitCode,Start,End,QOS,Reservation,User,Account,Partition,NodeList,ElapsedRaw,JobName"

// sacctUseFields are those of MergeUse: without their steps sacct says that jobs have
// used nothing.
const sacctUseFields = "Cluster,JobIDRaw,State,Start,TotalCPU,UserCPU,SystemCPU,MaxRSS,MaxRSSNode"

// SacctCommand returns the arguments and the variables to add to the environment
// of the one call of sacct that asks for all the jobs, whosever they are, every
// attempt of each. Records can lag by some seconds behind the jobs. Its output is
// for ParseSacct, and has one line for each attempt.
func SacctCommand(jobs []uint64) (args, environ []string) {
	return sacctCommand(jobs, sacctFields, "--allocations")
}

// SacctUseCommand is that of a second call, for what the jobs have used. It may be
// long: a job can have any number of steps.
func SacctUseCommand(jobs []uint64) (args, environ []string) {
	return sacctCommand(jobs, sacctUseFields, "--noconvert")
}

func sacctCommand(jobs []uint64, fields, option string) (args, environ []string) {
	ids := make([]string, len(jobs))
	for i, id := range jobs {
		ids[i] = strconv.FormatUint(id, 10)
	}
	args = []string{"--parsable2", option, "--allusers", "--duplicates", "--format=" + fields, "--jobs=" + strings.Join(ids, ",")}
	return args, []string{"SLURM_TIME_FORMAT=%s"}
}

// ParseSacct reads the output of sacct --parsable2 with its header: any fields in
// any order, of which JobIDRaw and State must be there. Of the lines of steps, which
// follow that of their job, the memory is taken. Times are seconds since the epoch or,
// where SLURM_TIME_FORMAT was not set, local times in loc. A line that cannot be read
// is an error, but the other lines count: both are returned.
func ParseSacct(output string, loc *time.Location) ([]Account, error) {
	var header []string
	var accounts []Account
	var bad []error
	number := 0
	for line := range strings.Lines(output) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		if header == nil {
			header = strings.Split(line, "|")
			if !slices.Contains(header, "JobIDRaw") || !slices.Contains(header, "State") {
				return nil, fmt.Errorf("the output of sacct begins with %.100q, which is no header with JobIDRaw and State", line)
			}
			continue
		}
		values := strings.SplitN(line, "|", len(header))
		a, ok := Account{}, len(values) == len(header)
		if ok && !addStep(header, values, accounts) {
			if a, ok = parseAccount(header, values, loc); ok {
				accounts = append(accounts, a)
			}
		}
		if !ok {
			bad = append(bad, fmt.Errorf("line %d of the output of sacct is malformed: %.100q", number, line))
		}
	}
	return accounts, errors.Join(bad...)
}

// noName is what slurmdbd calls a job as long as it has heard only of its end:
// seen of jobs that ended at once.
const noName = "allocation"

// parseAccount reads the line of a job.
func parseAccount(header, values []string, loc *time.Location) (a Account, ok bool) {
	for i, name := range header {
		v := values[i]
		switch name {
		case "JobIDRaw":
			id, err := strconv.ParseUint(v, 10, 64)
			if err != nil || id == 0 {
				return a, false
			}
			a.JobID = id
		case "JobID":
			a.setIDs(v)
		case "State":
			a.State, a.Outcome = v, outcomeOf(v)
		case "ExitCode":
			if code, signal, ok := slurm.ParseExit(v); ok {
				a.Code, a.Signal = rt.Some(code), rt.Some(signal)
			}
		case "DerivedExitCode":
			if code, signal, ok := slurm.ParseExit(v); ok && signal != 0 {
				a.Derived.Set(128 + signal)
			} else if ok {
				a.Derived.Set(code)
			}
		case "Start":
			a.Start = sacctTime(v, loc)
		case "End":
			a.End = sacctTime(v, loc)
		default:
			a.Used.set(name, v)
			if field := a.text(name); field != nil && slurm.Printable(v, slurm.MaxValue) && !(name == "JobName" && v == noName) {
				*field = v
			}
		}
	}
	return a, true
}

// text returns where the named text field is kept, nil for an unknown one.
func (a *Account) text(name string) *string {
	switch name {
	case "Cluster":
		return &a.Cluster
	case "QOS":
		return &a.QOS
	case "Reservation":
		return &a.Reservation
	case "User":
		return &a.User
	case "Account":
		return &a.Account
	case "Partition":
		return &a.Partition
	case "NodeList":
		return &a.NodeList
	case "JobName":
		return &a.JobName
	}
	return nil
}

// setIDs reads sacct's JobID: 12, 10_3 for a task of an array, 4+1 for a
// component of a heterogeneous job.
func (a *Account) setIDs(id string) {
	pair := func(sep string) (first, second rt.Opt[uint64]) {
		l, r, found := strings.Cut(id, sep)
		m, err1 := strconv.ParseUint(l, 10, 64)
		n, err2 := strconv.ParseUint(r, 10, 64)
		if !found || err1 != nil || err2 != nil {
			return first, second
		}
		return rt.Some(m), rt.Some(n)
	}
	a.ArrayJobID, a.ArrayTaskID = pair("_")
	a.HetJobID, a.HetJobOffset = pair("+")
}

// outcomeOf reads a job's state. "CANCELLED by 1001" names who did it.
func outcomeOf(state string) rt.Outcome {
	word, _, _ := strings.Cut(state, " ")
	switch word {
	case "COMPLETED":
		return rt.OutcomeFinished
	case "FAILED", "NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED":
		return rt.OutcomeFailed
	case "CANCELLED", "PREEMPTED", "REQUEUED", "REVOKED", "SPECIAL_EXIT":
		return rt.OutcomeCancelled
	case "TIMEOUT", "DEADLINE":
		return rt.OutcomeTimeout
	case "OUT_OF_MEMORY":
		return rt.OutcomeOOM
	}
	return rt.OutcomeNone // PENDING, RUNNING, SUSPENDED, COMPLETING, ...
}

// sacctTime reads a time of sacct; "Unknown" and "None" give zero.
func sacctTime(text string, loc *time.Location) time.Time {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && n < 1<<40 {
		return time.Unix(n, 0).UTC()
	}
	t, err := time.ParseInLocation("2006-01-02T15:04:05", text, loc)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
