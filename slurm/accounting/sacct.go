// Package accounting runs sacct, parses what it reports of jobs and adds that to their runs.
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

// Account is what Slurm's accounting has of one attempt of a job: one record of sacct. Times
// are zero until there is one.
type Account struct {
	Cluster      string
	JobID        uint64         // JobIDRaw
	DBIndex      rt.Opt[uint64] // the number of the record, for the other calls
	HasID        bool           // the following four are known; one that is absent does not apply to the job
	ArrayJobID   rt.Opt[uint64]
	ArrayTaskID  rt.Opt[uint64]
	HetJobID     rt.Opt[uint64]
	HetJobOffset rt.Opt[uint64]
	UID          rt.Opt[uint64] // of the job's user
	State        string         // as in sacct: "COMPLETED", "CANCELLED by 1001"
	Outcome      rt.Outcome     // what State means; OutcomeNone while the job goes on
	Code, Signal rt.Opt[int64]
	Derived      rt.Opt[int64]
	Start, End   time.Time
	Limit        time.Duration  // the time limit; 0 if there is none or it is not known
	Mem          rt.Opt[uint64] // bytes on all nodes, of AllocTRES

	Texts
	Used AccountUse
}

// sacctFields are numbers, times and words of Slurm, and the name of the cluster. None is a text that
// a user can set: such a text could look like the end of a record and another record. The texts
// come from a call of their own, see ReadTexts.
const sacctFields = "Cluster,DBIndex,JobIDRaw,JobID,UID,State,ExitCode,DerivedExitCode,Start,End,ElapsedRaw,TimelimitRaw,AllocTRES"

// sacctUseFields are the fields for MergeUse. sacct reports no use for a job without its steps.
const sacctUseFields = "Cluster,DBIndex,JobIDRaw,State,Start,TotalCPU,UserCPU,SystemCPU,MaxRSS,MaxRSSNode"

// SacctArgs returns the arguments of the call of sacct that reads every attempt of the
// jobs of all users. Records can lag some seconds behind the jobs. Its output is for
// ParseSacct, and has one line for each attempt.
func SacctArgs(jobs []uint64) []string {
	return append(selectJobs(jobs), "--allocations", "--noconvert", "--parsable2", "--format="+sacctFields)
}

// SacctUseArgs returns the arguments of the call for what the jobs' steps used.
func SacctUseArgs(jobs []uint64) []string {
	return append(selectJobs(jobs), "--noconvert", "--parsable2", "--format="+sacctUseFields)
}

func selectJobs(jobs []uint64) []string {
	ids := make([]string, len(jobs))
	for i, id := range jobs {
		ids[i] = strconv.FormatUint(id, 10)
	}
	return []string{"--allusers", "--duplicates", "--jobs=" + strings.Join(ids, ",")}
}

// ErrNoHeader is wrapped by the error of ParseSacct for an output that is not sacct's.
var ErrNoHeader = errors.New("which is no header with JobIDRaw and State")

// ParseSacct parses the output of sacct --parsable2 with its header. It has any fields in any
// order, with JobIDRaw and State, and no text that a user can set. A step's line follows its job's
// line, and only its memory is used. Times are seconds since the epoch, or local times in loc. The
// error has the malformed lines, and the accounts come from the other lines.
func ParseSacct(output string, loc *time.Location) ([]Account, error) {
	var header []string
	var accounts []Account
	var bad Malformed
	for line := range strings.Lines(output) {
		bad.Line++
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		if header == nil {
			header = strings.Split(line, "|")
			if !slices.Contains(header, "JobIDRaw") || !slices.Contains(header, "State") {
				return nil, fmt.Errorf("the output of sacct begins with %.100q, %w", line, ErrNoHeader)
			}
			continue
		}
		values := strings.Split(line, "|")
		if len(values) == len(header) {
			if addStep(header, values, accounts) {
				continue
			}
			if a, ok := parseAccount(header, values, loc); ok {
				accounts = append(accounts, a)
				continue
			}
		}
		bad.Add(line)
	}
	return accounts, bad.Err()
}

// Malformed collects the malformed lines of an output of sacct.
type Malformed struct {
	Line int // the number of the line that is read
	errs []error
	more int // malformed lines that are not in errs
}

// maxMalformed limits the lines in the error.
const maxMalformed = 5

// Add adds the line that is read.
func (m *Malformed) Add(line string) {
	if len(m.errs) == maxMalformed {
		m.more++
		return
	}
	m.errs = append(m.errs, fmt.Errorf("line %d of the output of sacct is malformed: %.100q", m.Line, line))
}

// Err returns the error for the malformed lines, nil if there are none.
func (m *Malformed) Err() error {
	if m.more > 0 {
		return errors.Join(append(m.errs, fmt.Errorf("%d further lines are malformed", m.more))...)
	}
	return errors.Join(m.errs...)
}

// parseAccount parses the line of a job.
func parseAccount(header, values []string, loc *time.Location) (a Account, ok bool) {
	for i, name := range header {
		v := values[i]
		switch name {
		case "Cluster":
			if slurm.Printable(v, slurm.MaxValue) {
				a.Cluster = v
			}
		case "JobIDRaw":
			id, err := strconv.ParseUint(v, 10, 64)
			if err != nil || id == 0 {
				return a, false
			}
			a.JobID = id
		case "DBIndex":
			a.DBIndex = parseNumber(v)
		case "JobID":
			a.setIDs(v)
		case "UID":
			a.UID = parseNumber(v)
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
		case "AllocTRES":
			for tres := range strings.SplitSeq(v, ",") {
				if size, isMem := strings.CutPrefix(tres, "mem="); isMem {
					a.Mem = sacctBytes(size)
				}
			}
		case "TimelimitRaw": // minutes, "UNLIMITED", "Partition_Limit"
			if minutes, err := strconv.ParseUint(v, 10, 32); err == nil {
				a.Limit = time.Duration(minutes) * time.Minute
			}
		case "Start":
			a.Start = sacctTime(v, loc)
		case "End":
			a.End = sacctTime(v, loc)
		default:
			a.Used.set(name, v)
		}
	}
	return a, true
}

func parseNumber(text string) rt.Opt[uint64] {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return rt.None[uint64]()
	}
	return rt.Some(n)
}

// setIDs parses sacct's JobID: 12, 10_3 (a task of an array), 4+1 (a het component).
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
	_, err := strconv.ParseUint(id, 10, 64)
	a.HasID = err == nil || a.ArrayJobID.Valid() || a.HetJobID.Valid()
}

// outcomeOf returns the outcome of a job's state. "CANCELLED by 1001" has the user.
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

// sacctTime parses a time of sacct; "Unknown" and "None" are zero.
func sacctTime(text string, loc *time.Location) time.Time {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && n < 1<<40 {
		return time.Unix(n, 0).UTC()
	}
	t, err := time.ParseInLocation("2006-01-02T15:04:05", text, loc)
	if err != nil || t.Nanosecond() != 0 { // Slurm's times are whole seconds
		return time.Time{}
	}
	return t.UTC()
}
