package drain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/accounting"
	"github.com/resource-tracker/rt/spool"
)

// Accounting completes ended runs from Slurm's accounting. A drain asks once how all runs ended,
// once for the names, and then for the resources that the jobs used. If sacct fails, the drain
// delivers the runs as they are.
type Accounting struct {
	Sacct    string // path of the program; empty: accounting is not used
	Deadline time.Duration
	Wait     time.Duration // a run that ended less long ago waits for its record
}

// AccountingResult is what accounting has done in a drain.
type AccountingResult struct {
	Accounted  int    `json:"runs_completed_by_sacct"`
	AwaitSacct int    `json:"runs_waiting_for_sacct"` // ended just now; left to the next drain
	SacctError string `json:"sacct_error,omitempty"`
}

// ended is a job's run that accounting may complete: few fields, as there may be very many.
type ended struct {
	name       string // of the spool file
	job        uint64
	cluster    string
	user       string
	uid        rt.Opt[uint64]
	start, end time.Time
}

func endedRun(name string, run *rt.Run) ended {
	return ended{name, run.JobID.Or(0), run.Cluster, run.User, run.UID, run.Start, run.End}
}

// wants reports whether accounting may add something to the run. To the run of a step it adds only
// the array ids, if the run has them as a tag.
func (a *Accounting) wants(run *rt.Run) bool {
	isEndedJob := run.State == rt.StateEnded && run.JobID.Valid()
	if a.Sacct == "" || !isEndedJob {
		return false
	}
	if run.Step != "" {
		return accounting.LacksArray(run)
	}
	return run.OutcomeSource != "sacct"
}

// completeRuns writes what accounting knows into the runs in dir, and returns those that must wait.
func (a *Accounting) completeRuns(ctx context.Context, dir string, runs []ended, now time.Time) (done AccountingResult, waiting map[string]bool) {
	if len(runs) == 0 {
		return done, nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.Deadline)
	defer cancel()
	accounts, hasAnswer, err := a.readAttempts(ctx, runs)
	done.noteError(err)
	waiting = map[string]bool{}
	for i := range runs {
		r := &runs[i]
		account, problem := r.account(accounts)
		age := now.Sub(r.end)
		isUnknown := account == nil || account.Outcome == rt.OutcomeNone || account.JobName == ""
		isRecent := age >= 0 && age < a.Wait
		path := filepath.Join(dir, r.name)
		switch {
		case isUnknown && isRecent && hasAnswer:
			waiting[r.name] = true
		case account != nil:
			done.writeAccount(path, account)
		case problem != "":
			done.noteError(writeProblem(path, problem))
		}
	}
	done.AwaitSacct = len(waiting)
	return done, waiting
}

func (d *AccountingResult) noteError(err error) {
	if err != nil {
		d.SacctError = err.Error()
	}
}

// jobsPerCall keeps the list of ids below the kernel's 128 KiB for one argument.
// stepsPerCall is for the call that returns a line for every step: a call that fails
// affects these jobs alone. maxSacct limits the output of a call, in bytes.
const (
	jobsPerCall  = 5000
	stepsPerCall = 500
	maxSacct     = 32 << 20
)

// readAttempts returns the attempts of the jobs by job id. hasAnswer is false if sacct did not answer how jobs
// ended: then no run waits for that. A malformed answer concerns the jobs of its malformed lines.
func (a *Accounting) readAttempts(ctx context.Context, runs []ended) (attempts map[uint64][]accounting.Account, hasAnswer bool, err error) {
	var ids []uint64
	for i := range runs {
		ids = append(ids, runs[i].job)
	}
	slices.Sort(ids)
	records := map[uint64][]accounting.Account{}
	var problems []error
	hasAnswer = true
	for jobs := range slices.Chunk(slices.Compact(ids), jobsPerCall) {
		list, isAnswer, err := a.callSacct(ctx, accounting.SacctArgs(jobs))
		if err != nil {
			problems = append(problems, fmt.Errorf("read how %d jobs ended: %w; the runs are delivered without", len(jobs), err))
		}
		if !isAnswer {
			hasAnswer = false
			break
		}
		if err := a.addTexts(ctx, jobs, list); err != nil {
			problems = append(problems, fmt.Errorf("read the names of %d jobs: %w; the runs are delivered without", len(jobs), err))
		}
		maps.Copy(records, byJob(list))
	}
	problems = append(problems, a.readUse(ctx, records))
	for id, list := range records {
		records[id] = accounting.Attempts(list)
	}
	return records, hasAnswer, errors.Join(problems...)
}

func (a *Accounting) addTexts(ctx context.Context, jobs []uint64, list []accounting.Account) error {
	if len(list) == 0 {
		return nil
	}
	return a.explain(accounting.AddTexts(ctx, a.Sacct, jobs, list, maxSacct))
}

// readUse adds what the jobs that have ended have used, which is optional.
func (a *Accounting) readUse(ctx context.Context, records map[uint64][]accounting.Account) error {
	var ids []uint64
	for id, list := range records {
		if slices.ContainsFunc(list, func(a accounting.Account) bool { return a.Outcome != rt.OutcomeNone }) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for jobs := range slices.Chunk(ids, stepsPerCall) {
		list, _, err := a.callSacct(ctx, accounting.SacctUseArgs(jobs))
		if err != nil {
			return fmt.Errorf("read what %d jobs have used: %w; the runs are delivered without", len(jobs), err)
		}
		used := byJob(list)
		for _, id := range jobs {
			accounting.MergeUse(records[id], used[id])
		}
	}
	return nil
}

// callSacct runs sacct. The error has the malformed lines of an answer too.
func (a *Accounting) callSacct(ctx context.Context, args []string) (list []accounting.Account, isAnswer bool, err error) {
	output, err := accounting.Run(ctx, a.Sacct, args, maxSacct)
	if err != nil {
		return nil, false, a.explain(err)
	}
	list, err = accounting.ParseSacct(output, time.Local)
	if err != nil {
		err = fmt.Errorf("%s: %w", a.Sacct, err)
	}
	return list, !errors.Is(err, accounting.ErrNoHeader), err
}

// explain names the setting of the deadline.
func (a *Accounting) explain(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s did not answer within %s (drain.sacct_deadline)", a.Sacct, a.Deadline)
	}
	return err
}

func byJob(list []accounting.Account) map[uint64][]accounting.Account {
	all := map[uint64][]accounting.Account{}
	for _, account := range list {
		all[account.JobID] = append(all[account.JobID], account)
	}
	return all
}

// account returns the run's account, nil for none, and why there is none.
func (e *ended) account(attempts map[uint64][]accounting.Account) (own *accounting.Account, problem string) {
	return accounting.Of(attempts[e.job], &rt.Run{
		Identity:   rt.Identity{Cluster: e.cluster, JobID: rt.Some(e.job), Start: e.start},
		Allocation: rt.Allocation{User: e.user, UID: e.uid},
	})
}

// writeProblem adds an event to a run's file, once.
func writeProblem(path, problem string) error {
	r, err := spool.Open(path)
	if err != nil {
		return err
	}
	events, err := r.Events()
	isKnown := slices.ContainsFunc(events, func(e rt.Event) bool { return e.Detail == problem })
	if err == nil && !isKnown {
		err = r.AddEvent(rt.Event{Time: time.Now().UTC(), Kind: "job", Name: "sacct", Status: "not used", Detail: problem})
	}
	return errors.Join(err, r.Close())
}

// writeAccount completes a run's file. After an error the run is delivered as it is.
func (d *AccountingResult) writeAccount(path string, account *accounting.Account) {
	r, err := spool.Open(path)
	if err != nil {
		d.noteError(err)
		return
	}
	run := r.Run()
	isWhole := account.Outcome != rt.OutcomeNone && run.Step == "" // the event has what the job used
	if e, ok := account.Event(time.Now().UTC()); ok && isWhole {
		err = r.AddEvent(e) // before the run is marked as completed: after an error the next drain retries
	}
	if err == nil && account.Merge(&run) {
		err = r.UpdateRun(run)
		if err == nil {
			d.Accounted++
		}
	}
	d.noteError(errors.Join(err, r.Close()))
}
