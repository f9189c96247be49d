package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/config"
	slurmacct "github.com/resource-tracker/rt/slurm/accounting"
	"github.com/resource-tracker/rt/spool"
)

// accounting completes ended runs by what Slurm's accounting knows of them. It is
// asked once a drain, for all of them together, how they ended and then what they
// have used, and never needed: without an answer the runs are delivered as they are.
type accounting struct {
	program  string // path of sacct; empty: nobody is asked
	named    bool   // by the configuration
	deadline time.Duration
	wait     time.Duration // a run that ended less long ago waits for its record

	Accounted  int    `json:"runs_completed_by_sacct"`
	AwaitSacct int    `json:"runs_waiting_for_sacct"` // ended just now; left to the next drain
	SacctError string `json:"sacct_error,omitempty"`
}

// sacctPlaces are looked into where PATH, cron's, has no sacct.
var sacctPlaces = []string{"/usr/local/bin/sacct", "/opt/slurm/bin/sacct", "/usr/local/slurm/bin/sacct"}

func newAccounting(cfg config.Drain) accounting {
	a := accounting{program: cfg.Sacct, deadline: cfg.SacctDeadline.Duration, wait: cfg.SacctWait.Duration}
	switch cfg.Sacct {
	case "off":
		a.program = ""
	case "auto":
		a.program, _ = exec.LookPath("sacct")
		for _, path := range sacctPlaces {
			if a.program == "" {
				a.program, _ = exec.LookPath(path)
			}
		}
	default:
		a.named = true
	}
	return a
}

// ended is a job's run that accounting may complete: as little of it as it takes,
// for there may be very many.
type ended struct {
	name       string // of the spool file
	job        uint64
	cluster    string
	start, end time.Time
}

func endedRun(name string, run *rt.Run) ended {
	return ended{name, run.JobID.Or(0), run.Cluster, run.Start, run.End}
}

// wants says whether accounting can know more of the run than its file. A step's
// run has its end from its own command.
func (a *accounting) wants(run *rt.Run) bool {
	return a.program != "" && run.State == rt.StateEnded && run.JobID.Valid() && run.Step == "" && run.OutcomeSource != "sacct"
}

// complete asks for all the runs and writes what is known into their files. It
// returns the names of those whose record is not there yet: they wait.
func (a *accounting) complete(ctx context.Context, dir string, runs []ended, now time.Time) map[string]bool {
	if len(runs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.deadline)
	defer cancel()
	accounts, err := a.ask(ctx, runs)
	if e := errors.Join(err, a.askUse(ctx, accounts)); e != nil {
		a.SacctError = e.Error()
	}
	waiting := map[string]bool{}
	for i := range runs {
		r := &runs[i]
		account := r.account(accounts)
		age := now.Sub(r.end)
		switch unknown := account == nil || account.Outcome == rt.OutcomeNone || account.JobName == ""; {
		case unknown && err == nil && age >= 0 && age < a.wait:
			waiting[r.name] = true
		case account != nil:
			a.write(filepath.Join(dir, r.name), account)
		}
	}
	a.AwaitSacct = len(waiting)
	return waiting
}

// jobsPerCall keeps the list of ids below the kernel's 128 KiB for one argument.
// stepsPerCall is for the call that has a line for every step of the jobs: what does
// not come of some in time is lost of these alone. maxSaid is how many bytes of an
// answer are kept.
const (
	jobsPerCall  = 5000
	stepsPerCall = 500
	maxSaid      = 32 << 20
)

// ask returns the accounts by job id, whatever it got of them.
func (a *accounting) ask(ctx context.Context, runs []ended) (map[uint64][]slurmacct.Account, error) {
	var ids []uint64
	for i := range runs {
		ids = append(ids, runs[i].job)
	}
	slices.Sort(ids)
	accounts := map[uint64][]slurmacct.Account{}
	for jobs := range slices.Chunk(slices.Compact(ids), jobsPerCall) {
		args, environ := slurmacct.SacctCommand(jobs)
		list, err := a.call(ctx, args, environ)
		for _, account := range list {
			accounts[account.JobID] = append(accounts[account.JobID], account)
		}
		if err != nil {
			return accounts, fmt.Errorf("ask for %d jobs: %w; the runs are delivered without", len(jobs), err)
		}
	}
	return accounts, nil
}

// askUse asks what the jobs that have ended have used, which the runs can do without.
func (a *accounting) askUse(ctx context.Context, accounts map[uint64][]slurmacct.Account) error {
	var ids []uint64
	for id, list := range accounts {
		if slices.ContainsFunc(list, func(a slurmacct.Account) bool { return a.Outcome != rt.OutcomeNone }) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for jobs := range slices.Chunk(ids, stepsPerCall) {
		args, environ := slurmacct.SacctUseCommand(jobs)
		used, err := a.call(ctx, args, environ)
		if err != nil {
			return fmt.Errorf("ask what %d jobs have used: %w; the runs are delivered without", len(jobs), err)
		}
		byJob := map[uint64][]slurmacct.Account{}
		for _, u := range used {
			byJob[u.JobID] = append(byJob[u.JobID], u)
		}
		for _, id := range jobs {
			slurmacct.MergeUse(accounts[id], byJob[id])
		}
	}
	return nil
}

// answer keeps the beginning of what a program says.
type answer struct {
	text []byte
	most int
	more bool // was said
}

// Write implements io.Writer.
func (a *answer) Write(b []byte) (int, error) {
	fits := min(len(b), a.most-len(a.text))
	a.text, a.more = append(a.text, b[:fits]...), a.more || fits < len(b)
	return len(b), nil
}

// call runs sacct.
func (a *accounting) call(ctx context.Context, args, environ []string) ([]slurmacct.Account, error) {
	cmd := exec.CommandContext(ctx, a.program, args...)
	cmd.Env = append(os.Environ(), environ...)
	cmd.WaitDelay = time.Second // for a child that keeps its output open
	out, said := answer{most: maxSaid}, answer{most: 4096}
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("it did not answer within %s (drain.sacct_deadline)", a.deadline)
	case err != nil && len(said.text) > 0:
		err = fmt.Errorf("%w: %.200s", err, strings.TrimSpace(string(said.text)))
	case err == nil && out.more:
		err = fmt.Errorf("its answer has more than %d bytes", maxSaid)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.program, err)
	}
	list, err := slurmacct.ParseSacct(string(out.text), time.Local)
	if err != nil {
		err = fmt.Errorf("%s: %w", a.program, err)
	}
	return list, err
}

// account returns that of the run, nil where there is none.
func (e *ended) account(accounts map[uint64][]slurmacct.Account) *slurmacct.Account {
	list := accounts[e.job]
	run := rt.Run{Identity: rt.Identity{Cluster: e.cluster, JobID: rt.Some(e.job), Start: e.start}}
	for i := range list {
		if list[i].Describes(&run) {
			return &list[i]
		}
	}
	return nil
}

// write completes a run's file. What prevents that is reported, and the run is
// delivered as it is.
func (a *accounting) write(path string, account *slurmacct.Account) {
	r, err := spool.Open(path)
	if err != nil {
		a.SacctError = err.Error()
		return
	}
	run := r.Run()
	if e, ok := account.Event(time.Now().UTC()); ok && account.Outcome != rt.OutcomeNone {
		err = r.AddEvent(e) // before the run says that it was asked: where it fails, the next drain asks again
	}
	if err == nil && account.Merge(&run) {
		if err = r.UpdateRun(run); err == nil {
			a.Accounted++
		}
	}
	if err = errors.Join(err, r.Close()); err != nil {
		a.SacctError = err.Error()
	}
}
