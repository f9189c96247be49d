// Package accounting runs sacct, parses what it reports of jobs and adds that to their runs.
package accounting

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// Account is what Slurm's accounting has of one attempt of a job: one line of sacct. Times
// are zero until there is one.
type Account struct {
	Cluster      string
	JobID        uint64 // JobIDRaw
	HasID        bool   // the following four are known; one that is absent does not apply to the job
	ArrayJobID   rt.Opt[uint64]
	ArrayTaskID  rt.Opt[uint64]
	HetJobID     rt.Opt[uint64]
	HetJobOffset rt.Opt[uint64]
	State        string     // as in sacct: "COMPLETED", "CANCELLED by 1001"
	Outcome      rt.Outcome // what State means; OutcomeNone while the job goes on
	Code, Signal rt.Opt[int64]
	Derived      rt.Opt[int64]
	Start, End   time.Time
	Limit        time.Duration // the time limit; 0 if there is none or it is not known
	QOS          string
	Reservation  string
	User         string
	Account      string
	Partition    string
	NodeList     string
	Mem          rt.Opt[uint64] // bytes on all nodes, of AllocTRES
	JobName      string         // empty until slurmdbd has it

	Used AccountUse
}

// sacctFields ends with JobName: only that can have the separator.
const sacctFields = "Cluster,JobIDRaw,JobID,State,ExitCode,DerivedExitCode,Start,End,QOS,Reservation,User,Account,Partition,NodeList,ElapsedRaw,TimelimitRaw,AllocTRES,JobName"

// sacctUseFields are those of MergeUse. sacct reports no use for a job without its steps.
const sacctUseFields = "Cluster,JobIDRaw,State,Start,TotalCPU,UserCPU,SystemCPU,MaxRSS,MaxRSSNode"

// SacctArgs returns the arguments of the call of sacct that reads every attempt of the
// jobs of all users. Records can lag some seconds behind the jobs. Its output is for
// ParseSacct, and has one line for each attempt.
func SacctArgs(jobs []uint64) []string {
	return sacctArgs(jobs, sacctFields, "--allocations", "--noconvert")
}

// SacctUseArgs returns those of a second call, for what the jobs' steps have used.
func SacctUseArgs(jobs []uint64) []string { return sacctArgs(jobs, sacctUseFields, "--noconvert") }

func sacctArgs(jobs []uint64, fields string, options ...string) []string {
	ids := make([]string, len(jobs))
	for i, id := range jobs {
		ids[i] = strconv.FormatUint(id, 10)
	}
	return append(options, "--parsable2", "--allusers", "--duplicates", "--format="+fields, "--jobs="+strings.Join(ids, ","))
}

// ParseSacct parses the output of sacct --parsable2 with its header: any fields in any order,
// with JobIDRaw and State. Of the lines of steps, after that of their job, only the memory is
// used. Times are seconds since the epoch, or local times in loc. The error has the malformed
// lines, and the accounts are those of the other lines.
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
		if len(values) == len(header) {
			if addStep(header, values, accounts) {
				continue
			}
			if a, ok := parseAccount(header, values, loc); ok {
				accounts = append(accounts, a)
				continue
			}
		}
		bad = append(bad, fmt.Errorf("line %d of the output of sacct is malformed: %.100q", number, line))
	}
	return accounts, errors.Join(bad...)
}

// noName is slurmdbd's name of a job of which it has only the end.
const noName = "allocation"

// parseAccount parses the line of a job.
func parseAccount(header, values []string, loc *time.Location) (a Account, ok bool) {
	texts := map[string]*string{
		"Cluster": &a.Cluster, "QOS": &a.QOS, "Reservation": &a.Reservation, "User": &a.User,
		"Account": &a.Account, "Partition": &a.Partition, "NodeList": &a.NodeList, "JobName": &a.JobName,
	}
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
			isNoName := name == "JobName" && v == noName
			if field := texts[name]; field != nil && slurm.Printable(v, slurm.MaxValue) && !isNoName {
				*field = v
			}
		}
	}
	return a, true
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
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// sacctPlaces are where FindSacct looks when PATH, that of cron for example, lacks it.
var sacctPlaces = []string{"/usr/local/bin/sacct", "/opt/slurm/bin/sacct", "/usr/local/slurm/bin/sacct"}

// FindSacct returns the path of sacct; empty where it is not installed.
func FindSacct() string {
	for _, path := range append([]string{"sacct"}, sacctPlaces...) {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	return ""
}

// passed are the variables that sacct gets. The environment of a drain has tokens and keys, which
// no other program must get. SLURM_JWT is Slurm's own, for clusters with auth/jwt.
var passed = [...]string{"PATH", "LANG", "LD_LIBRARY_PATH", "SLURM_CONF", "SLURM_JWT", "TZ"}

// environment returns those of the variables that are set, and the format of times.
func environment() []string {
	env := []string{"SLURM_TIME_FORMAT=%s"}
	for _, name := range passed {
		if value, isSet := os.LookupEnv(name); isSet {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// ErrTooLong is wrapped by the error of Run when the output is larger than its limit.
var ErrTooLong = errors.New("its output is too large")

// Run runs sacct at the path program and returns at most maxBytes of output, with times in
// seconds since the epoch. Of the environment sacct gets only PATH, LANG, LD_LIBRARY_PATH,
// SLURM_CONF, SLURM_JWT and TZ. The error wraps context.DeadlineExceeded when ctx ends first, and
// ends with what sacct wrote to its standard error.
func Run(ctx context.Context, program string, args []string, maxBytes int) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = environment()
	cmd.WaitDelay = time.Second // for a child that keeps its output open
	output, messages := prefix{limit: maxBytes}, prefix{limit: 4 << 10}
	cmd.Stdout, cmd.Stderr = &output, &messages
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case err != nil && len(messages.text) > 0:
		err = fmt.Errorf("%w: %s", err, strings.Join(strings.Fields(string(messages.text)), " "))
	case err == nil && output.cut:
		err = fmt.Errorf("%w: more than %d bytes", ErrTooLong, maxBytes)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	return string(output.text), nil
}

// prefix keeps the beginning of what is written to it.
type prefix struct {
	text  []byte
	limit int
	cut   bool
}

// Write implements io.Writer.
func (p *prefix) Write(b []byte) (int, error) {
	fits := min(len(b), p.limit-len(p.text))
	p.text, p.cut = append(p.text, b[:fits]...), p.cut || fits < len(b)
	return len(b), nil
}
