package main

import (
	"bytes"
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
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/slurm"
	"github.com/resource-tracker/rt/spool"
)

// accounting completes ended runs by what Slurm's accounting knows of them. It is
// asked once a drain, for all of them together, and never needed: without an
// answer the runs are delivered as they are.
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
	accounts, err := a.ask(ctx, runs)
	if err != nil {
		a.SacctError = err.Error()
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
const jobsPerCall = 5000

// ask returns the accounts by job id, whatever it got of them.
func (a *accounting) ask(ctx context.Context, runs []ended) (map[uint64][]slurm.Account, error) {
	ctx, cancel := context.WithTimeout(ctx, a.deadline)
	defer cancel()
	var ids []uint64
	for i := range runs {
		ids = append(ids, runs[i].job)
	}
	slices.Sort(ids)
	accounts := map[uint64][]slurm.Account{}
	for jobs := range slices.Chunk(slices.Compact(ids), jobsPerCall) {
		list, err := a.call(ctx, jobs)
		for _, account := range list {
			accounts[account.JobID] = append(accounts[account.JobID], account)
		}
		if err != nil {
			return accounts, err
		}
	}
	return accounts, nil
}

func (a *accounting) call(ctx context.Context, jobs []uint64) ([]slurm.Account, error) {
	args, environ := slurm.SacctCommand(jobs)
	cmd := exec.CommandContext(ctx, a.program, args...)
	cmd.Env = append(os.Environ(), environ...)
	cmd.WaitDelay = time.Second // for a child that keeps its output open
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("it did not answer within %s (drain.sacct_deadline)", a.deadline)
	case err != nil && said.Len() > 0:
		err = fmt.Errorf("%w: %.200s", err, strings.TrimSpace(said.String()))
	}
	if err != nil {
		return nil, fmt.Errorf("ask %s for %d jobs: %w; the runs are delivered without", a.program, len(jobs), err)
	}
	list, err := slurm.ParseSacct(string(out), time.Local)
	if err != nil {
		err = fmt.Errorf("%s: %w", a.program, err)
	}
	return list, err
}

// account returns that of the run, nil where there is none.
func (e *ended) account(accounts map[uint64][]slurm.Account) *slurm.Account {
	list := accounts[e.job]
	run := rt.Run{Cluster: e.cluster, JobID: rt.Some(e.job), Start: e.start}
	for i := range list {
		if list[i].Describes(&run) {
			return &list[i]
		}
	}
	return nil
}

// write completes a run's file. What prevents that is reported, and the run is
// delivered as it is.
func (a *accounting) write(path string, account *slurm.Account) {
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
