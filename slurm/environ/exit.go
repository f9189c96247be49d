package environ

import (
	"fmt"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// oomSignal is Slurm's signal of a job that was out of memory: 0:125, raw 253.
const oomSignal = 125

// ExitFromEpilog returns how the job ended according to the environment of its Epilog; now is the
// time of the Epilog. It fails with ErrNoJob outside a hook. The outcome is unknown where the
// environment does not determine it. 0:0 also means cancelled, time limit and failure of a node,
// and a Prolog has no exit code. SLURM_JOB_EXIT_CODE2 is code:signal; SLURM_JOB_EXIT_CODE and
// SLURM_JOB_DERIVED_EC are wait statuses, see wait(2).
func ExitFromEpilog(env Env, now time.Time) (rt.Exit, error) {
	if !env.Number("SLURM_JOB_ID", "SLURM_JOBID").Valid() {
		return rt.Exit{}, fmt.Errorf("this is not an Epilog of Slurm: %w", ErrNoJob)
	}
	exit := rt.Exit{Outcome: rt.OutcomeUnknown, Source: "epilog", Time: now}
	exit.Code, exit.Signal = exitCode(env)
	if raw, ok := env.Number("SLURM_JOB_DERIVED_EC").Get(); ok && raw <= 0xffff {
		if signal := raw & 0x7f; signal != 0 {
			exit.Derived.Set(int64(128 + signal))
		} else {
			exit.Derived.Set(int64(raw >> 8))
		}
	}
	switch code, signal := exit.Code.Or(0), exit.Signal.Or(0); {
	case signal == oomSignal:
		exit.Outcome = rt.OutcomeOOM
	case code != 0 || signal != 0:
		exit.Outcome = rt.OutcomeFailed
	}
	return exit, nil
}

func exitCode(env Env) (code, signal rt.Opt[int64]) {
	if c, s, ok := slurm.ParseExit(env.Text("SLURM_JOB_EXIT_CODE2")); ok {
		return rt.Some(c), rt.Some(s)
	}
	if raw, ok := env.Number("SLURM_JOB_EXIT_CODE").Get(); ok && raw <= 0xffff {
		return rt.Some(int64(raw >> 8)), rt.Some(int64(raw & 0x7f))
	}
	return code, signal
}

// Evidence is what the node recorded of a job's end.
type Evidence struct {
	OOMKills uint64                     // oom_kill of the job's cgroup: processes that the kernel killed for memory
	Batch    rt.Opt[syscall.WaitStatus] // of the batch script, where the kernel reported it
	End      time.Time                  // when the job's last process ended; zero: not known
	Limit    time.Time                  // when the job's time limit ends it; zero: not known, as in Slurm 22.05, or none
}

// Decide combines an Epilog's exit with the node's evidence of the job's end. A code, a
// signal and out of memory, which Slurm reports reliably, stay; its 0:0 does not. exit is
// empty if no Epilog ran.
func Decide(exit rt.Exit, seen Evidence) rt.Exit {
	code, signal := exit.Code.Or(0), exit.Signal.Or(0)
	killed := signal == int64(syscall.SIGKILL) || code == 128+int64(syscall.SIGKILL)
	if exit.Outcome == rt.OutcomeFailed && killed && seen.OOMKills > 0 {
		exit.Outcome, exit.Source = rt.OutcomeOOM, "kernel"
		return exit
	}
	if exit.Outcome != rt.OutcomeUnknown && exit.Outcome != rt.OutcomeNone {
		return exit
	}
	isTimed := !seen.End.IsZero() && !seen.Limit.IsZero()
	late := isTimed && !seen.End.Before(seen.Limit)
	ws, known := seen.Batch.Get()
	clean := known && ws.Exited() && ws.ExitStatus() == 0
	switch {
	case clean:
		exit.Outcome, exit.Source = rt.OutcomeFinished, "kernel"
	case late:
		exit.Outcome, exit.Source = rt.OutcomeTimeout, "kernel"
	case !known:
		exit.Outcome = rt.OutcomeUnknown
	case exit.Code.Valid() && isTimed:
		// Slurm reports 0:0 of a script that ended otherwise: Slurm ended it.
		exit.Outcome, exit.Source = rt.OutcomeCancelled, "kernel"
	case exit.Code.Valid():
		exit.Outcome, exit.Source = rt.OutcomeTerminated, "kernel"
	case seen.OOMKills > 0 && ws.Signaled() && ws.Signal() == syscall.SIGKILL:
		exit.Outcome, exit.Source = rt.OutcomeOOM, "kernel"
	default:
		exit.Outcome, exit.Source = rt.OutcomeFailed, "kernel"
	}
	if known && !exit.Code.Valid() {
		exit.Code, exit.Signal = rt.Some[int64](0), rt.Some[int64](0)
		if ws.Exited() {
			exit.Code.Set(int64(ws.ExitStatus()))
		} else if ws.Signaled() {
			exit.Signal.Set(int64(ws.Signal()))
		}
	}
	return exit
}
