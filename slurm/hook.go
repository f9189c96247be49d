package slurm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// ErrTracked says that the job has a tracker already: a Prolog was repeated.
var ErrTracked = errors.New("this attempt of the job is tracked already")

// Hook is what Prolog and Epilog need to know beside the environment. All paths
// are absolute.
type Hook struct {
	Tracker      string        // the rt-tracker binary
	ConfigFile   string        // given to the tracker as --config; empty: it reads the default file
	SpoolDir     string        // where the run's file will be, for the note
	LogFile      string        // gets what a crashing tracker prints; empty: nobody does
	State        State         // where Prolog and Epilog meet
	User         *User         // whom the tracker runs as; nil: as this process
	Interval     time.Duration // between readings, noted in the run
	ReadyTimeout time.Duration // how long a Prolog waits for the tracker
	StopTimeout  time.Duration // how long an Epilog waits for it
	DisableFile  string        // while it exists nothing is done; empty: there is no such switch
	Failures     int           // so many in a row stop the Prolog ...
	Reset        time.Duration // ... for so long
	ProcRoot     string        // "/proc"
	Hostname     string        // the node's name where Slurm does not say it

	GroupName func(gid uint64) string // name of a user's group, empty where unknown
}

// User is whom a tracker runs as.
type User struct{ UID, GID uint32 }

// disabled tells whether the kill switch is on.
func (h *Hook) disabled() bool {
	if h.DisableFile == "" {
		return false
	}
	_, err := os.Stat(h.DisableFile)
	return err == nil
}

// Prolog starts a tracker for the job of the environment and waits until it is
// ready, at most ReadyTimeout; now is when the run starts. It is safe to run it
// again: an attempt of a job that has a living tracker gets no second one
// (ErrTracked). A tracker of an earlier attempt is told to stop, not waited for.
//
// The error is for the log and never for an exit status, because Slurm drains the
// node of a Prolog that fails. After Failures errors in a row nothing is tried for
// Reset, and no error comes then. With the kill switch on nothing is done at all.
func (h *Hook) Prolog(env Env, now time.Time) error {
	if h.disabled() {
		return nil
	}
	run, err := h.run(env, now)
	if err != nil {
		return err
	}
	b := h.State.breaker(run.Node, h.Failures, h.Reset)
	if b.open(now) {
		return nil
	}
	if err = h.track(&run); errors.Is(err, ErrTracked) {
		return err
	}
	if err != nil {
		return b.failed(err, now)
	}
	return b.succeeded()
}

// run makes the Run of a node's Prolog.
func (h *Hook) run(env Env, now time.Time) (rt.Run, error) {
	run, err := FromHook(env, now)
	if err != nil {
		return rt.Run{}, err
	}
	if c := env.Text("SLURM_SCRIPT_CONTEXT"); strings.HasSuffix(c, "_slurmctld") || strings.HasSuffix(c, "_task") {
		return rt.Run{}, fmt.Errorf("this hook runs as %s; in slurm.conf it belongs to Prolog= and Epilog=, which run on the node as root", c)
	}
	if run.Node == "" {
		run.Node = h.Hostname
	}
	if gid, ok := run.GID.Get(); ok && run.Group == "" && h.GroupName != nil {
		run.Group = h.GroupName(gid)
		Describe(&run)
	}
	if id, err := os.ReadFile(filepath.Join(h.ProcRoot, "sys/kernel/random/boot_id")); err == nil {
		run.BootID = strings.TrimSpace(string(id))
	}
	run.Interval = h.Interval.Seconds()
	run.TrackerVersion = rt.Version
	return run, nil
}

// track starts the run's tracker unless the attempt has one.
func (h *Hook) track(run *rt.Run) error {
	if own, err := os.ReadFile(filepath.Join(h.ProcRoot, "self/cgroup")); err == nil {
		if path, inside := InsideJob(own); inside {
			return fmt.Errorf("this hook runs in the job's own cgroup %s, where a tracker would be charged to the job and die with it: take RunInJob out of PrologFlags in slurm.conf", path)
		}
	}
	deadline := time.Now().Add(h.ReadyTimeout)
	t, err := h.startLocked(run, deadline)
	if err != nil {
		return err
	}
	if err := t.waitReady(deadline); err != nil {
		return fmt.Errorf("%s: %w", h.Tracker, err)
	}
	return nil
}

// startLocked starts the tracker and leaves the note, both under the job's lock.
func (h *Hook) startLocked(run *rt.Run, deadline time.Time) (t *tracker, err error) {
	if err := h.State.make(); err != nil {
		return nil, err
	}
	job := run.JobID.Or(0)
	lock, err := h.State.lock(job, run.Node, deadline)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.release()) }()

	if old, err := h.State.ReadNote(job, run.Node); err == nil && alive(h.ProcRoot, old.PID, old.PIDStart) {
		if old.Attempt == run.Attempt {
			return nil, fmt.Errorf("%w, by process %d", ErrTracked, old.PID)
		}
		// Its Epilog never came: let it end its own run, on its own time.
		if p, err := findProcess(h.ProcRoot, old.PID, old.PIDStart); err == nil {
			err = errors.Join(p.terminate(), p.close())
			if err != nil {
				return nil, fmt.Errorf("cannot stop the tracker of the job's attempt %d: %w", old.Attempt, err)
			}
		}
	}
	// An exit that is still there is that of an earlier attempt.
	if err := h.State.RemoveExit(job, run.Node); err != nil {
		return nil, fmt.Errorf("cannot clear the job's exit: %w", err)
	}
	if t, err = h.launch(run, deadline); err != nil {
		return nil, err
	}
	return t, h.State.writeNote(job, run.Node, Note{
		PID: t.pid, PIDStart: t.start, Attempt: run.Attempt,
		RunID: run.FileStem(), Spool: filepath.Join(h.SpoolDir, run.FileStem()+".db"), Started: run.Start,
	})
}

// Epilog hands the tracker of the environment's job the exit information, tells
// it to stop and waits until it has, at most StopTimeout. Where no Prolog ran, and
// when it is run again, there is nothing to do. The error is for the log, as with
// Prolog; a tracker that was dead when its Epilog came is one.
func (h *Hook) Epilog(env Env, now time.Time) (err error) {
	if h.disabled() {
		return nil
	}
	run, err := h.run(env, now)
	if err != nil {
		return err
	}
	job, node := run.JobID.Or(0), run.Node
	note, err := h.State.ReadNote(job, node)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot tell the tracker that the job has ended: %w", err), h.State.removeNote(job, node))
	}
	exit, err := ExitFromEpilog(env, now)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(h.StopTimeout)
	lock, err := h.State.lock(job, node, deadline)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	return h.stop(job, node, note, exit, deadline)
}

// stop ends the tracker that the note names.
func (h *Hook) stop(job uint64, node string, note Note, exit rt.Exit, deadline time.Time) error {
	if err := h.State.writeExit(job, node, exit); err != nil {
		return err
	}
	p, err := findProcess(h.ProcRoot, note.PID, note.PIDStart)
	if errors.Is(err, os.ErrProcessDone) {
		gone := fmt.Errorf("the tracker (process %d) was gone before the job's Epilog; what it had committed is in %s, and rt-spool drain closes the run as lost", note.PID, note.Spool)
		return errors.Join(gone, h.State.removeNote(job, node))
	}
	if err != nil {
		return err
	}
	defer p.close()
	if err := p.terminate(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("cannot stop the tracker: %w", err)
	}
	if !p.waitGone(deadline) {
		return fmt.Errorf("the tracker (process %d) has not ended within %s of its SIGTERM; it is left to end by itself", note.PID, h.StopTimeout)
	}
	return errors.Join(h.State.removeNote(job, node), h.State.RemoveExit(job, node))
}
