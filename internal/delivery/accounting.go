package delivery

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/accounting"
	"github.com/resource-tracker/rt/spool"
)

// Accounting completes ended runs from Slurm's accounting: in one drain, one call for how
// all of them ended and then calls for what they have used. If sacct fails, the runs
// are delivered as they are.
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
	start, end time.Time
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

// complete writes what accounting knows into the runs in dir, and returns those that must wait.
func (a *Accounting) complete(ctx context.Context, dir string, runs []ended, now time.Time) (done AccountingResult, waiting map[string]bool) {
	if len(runs) == 0 {
		return done, nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.Deadline)
	defer cancel()
	accounts, err := a.readEnds(ctx, runs)
	done.note(errors.Join(err, a.readUse(ctx, accounts)))
	waiting = map[string]bool{}
	for i := range runs {
		r := &runs[i]
		account := r.account(accounts)
		age := now.Sub(r.end)
		isUnknown := account == nil || account.Outcome == rt.OutcomeNone || account.JobName == ""
		isRecent := age >= 0 && age < a.Wait
		switch {
		case isUnknown && isRecent && err == nil:
			waiting[r.name] = true
		case account != nil:
			done.write(filepath.Join(dir, r.name), account)
		}
	}
	done.AwaitSacct = len(waiting)
	return done, waiting
}

func (d *AccountingResult) note(err error) {
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

// readEnds returns the accounts by job id; after an error those that it got.
func (a *Accounting) readEnds(ctx context.Context, runs []ended) (map[uint64][]accounting.Account, error) {
	var ids []uint64
	for i := range runs {
		ids = append(ids, runs[i].job)
	}
	slices.Sort(ids)
	accounts := map[uint64][]accounting.Account{}
	for jobs := range slices.Chunk(slices.Compact(ids), jobsPerCall) {
		byJob, err := a.call(ctx, accounting.SacctArgs(jobs))
		for id, list := range byJob {
			accounts[id] = append(accounts[id], list...)
		}
		if err != nil {
			return accounts, fmt.Errorf("read how %d jobs ended: %w; the runs are delivered without", len(jobs), err)
		}
	}
	return accounts, nil
}

// readUse adds what the jobs that have ended have used, which is optional.
func (a *Accounting) readUse(ctx context.Context, accounts map[uint64][]accounting.Account) error {
	var ids []uint64
	for id, list := range accounts {
		if slices.ContainsFunc(list, func(a accounting.Account) bool { return a.Outcome != rt.OutcomeNone }) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for jobs := range slices.Chunk(ids, stepsPerCall) {
		used, err := a.call(ctx, accounting.SacctUseArgs(jobs))
		if err != nil {
			return fmt.Errorf("read what %d jobs have used: %w; the runs are delivered without", len(jobs), err)
		}
		for _, id := range jobs {
			accounting.MergeUse(accounts[id], used[id])
		}
	}
	return nil
}

// call runs sacct, and returns the accounts by job id.
func (a *Accounting) call(ctx context.Context, args []string) (map[uint64][]accounting.Account, error) {
	output, err := accounting.Run(ctx, a.Sacct, args, maxSacct)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%s did not answer within %s (drain.sacct_deadline)", a.Sacct, a.Deadline)
	}
	if err != nil {
		return nil, err
	}
	list, err := accounting.ParseSacct(output, time.Local)
	if err != nil {
		err = fmt.Errorf("%s: %w", a.Sacct, err)
	}
	byJob := map[uint64][]accounting.Account{}
	for _, account := range list {
		byJob[account.JobID] = append(byJob[account.JobID], account)
	}
	return byJob, err
}

// account returns that of the run, nil for none. Slurm's times are whole seconds: if an attempt ends
// in the second in which the next one begins, both describe a run, and the last that began before the
// run is its own.
func (e *ended) account(accounts map[uint64][]accounting.Account) *accounting.Account {
	list := accounts[e.job]
	run := rt.Run{Identity: rt.Identity{Cluster: e.cluster, JobID: rt.Some(e.job), Start: e.start}}
	var own *accounting.Account
	for i := range list {
		a := &list[i]
		if !a.Describes(&run) {
			continue
		}
		isLater := own != nil && a.Start.After(own.Start) && !a.Start.After(e.start)
		if own == nil || isLater {
			own = a
		}
	}
	return own
}

// write completes a run's file. After an error the run is delivered as it is.
func (d *AccountingResult) write(path string, account *accounting.Account) {
	r, err := spool.Open(path)
	if err != nil {
		d.note(err)
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
	d.note(errors.Join(err, r.Close()))
}
