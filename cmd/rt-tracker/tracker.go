package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/slurm/launch"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/tracker"
)

const (
	procRoot = "/proc"
	sysRoot  = "/sys"
	devRoot  = "/dev"
)

// settle limits two waits of a tracker that stops: for the end of its job, and for its
// other goroutines.
const settle = 500 * time.Millisecond

// jobTracker tracks one job.
type jobTracker struct {
	cfg         config.Config
	log         *slog.Logger // its messages begin with the job: "job 12@n1"
	id          rt.Run       // the job's identity, which does not change
	state       launch.State
	hasBegun    func() bool // whether the job may have begun
	job         *tracker.JobWatch
	environment *tracker.JobEnvironment
	writer      *tracker.RunFile
	node        []collect.Source   // sources of the node's values
	cache       *collect.NodeCache // shares the values of node among trackers; nil for none
	sources     []collect.Source
	last        lastReading
	flight      *tracker.FlightRecorder // nil for none

	jobEnded     time.Time // when the job's cgroup became empty
	layout, path string    // of the job's cgroup, set at the end
}

// newJobTracker opens the job watch and the sources, and begins to create the spool file: if that
// fails, run returns the reason. The job's cgroup does not have to exist yet.
func newJobTracker(cfg config.Config, run rt.Run, hasBegun func() bool, log *slog.Logger) (_ *jobTracker, err error) {
	log = log.With("job", fmt.Sprintf("job %s@%s", run.Label(), run.Node))
	t := &jobTracker{cfg: cfg, log: log, state: launch.State{Dir: cfg.Tracker.StateDir}, hasBegun: hasBegun}
	run.State, run.TrackerVersion = rt.StateRunning, rt.Version
	run.Interval = cfg.Tracker.Interval.Seconds()
	run.BootID, err = host.BootID(procRoot)
	if err != nil {
		return nil, err
	}
	t.id = run
	t.writer = tracker.NewRunFile()
	t.flight = tracker.NewFlightRecorder(cfg.Spool.Dir, &run, cfg.Tracker.FlightRecorder.Bytes, t.writer)
	if err := t.open(t.openJob); err != nil {
		return nil, err
	}
	t.environment = tracker.NewJobEnvironment(t.job, run, t.writer.UpdateRun, func(err error) { log.Warn(err.Error()) })
	t.openNodeCache()
	return t, nil
}

// open begins to create the spool file, which waits for the disk, and meanwhile calls openJob. If that fails, the file
// is deleted.
func (t *jobTracker) open(openJob func() error) error {
	go t.writer.Create(t.createSpool)
	err := openJob()
	if err == nil {
		return nil
	}
	return errors.Join(err, t.writer.Discard())
}

// openJob opens the job watch and the sources.
func (t *jobTracker) openJob() (err error) {
	run := t.id
	t.job, err = tracker.WatchJob(&run, procRoot, t.hasBegun, func(err error) { t.log.Error(err.Error()) })
	if err != nil {
		return err
	}
	t.openSources()
	return nil
}

// createSpool creates the run's file.
func (t *jobTracker) createSpool() (*spool.Writer, error) {
	known, stale := host.Known(t.cfg.Tracker.HostCache, host.NewRoots(procRoot, sysRoot), os.LookupEnv, time.Now())
	readers, denied := t.cfg.Spool.Readers("/etc/group")
	w, err := spool.Create(t.cfg.Spool.Dir, t.id, known, spool.Options{
		CommitInterval: t.cfg.Spool.CommitInterval.Duration,
		QuotaRun:       t.cfg.Spool.QuotaRun.Bytes,
		QuotaNode:      t.cfg.Spool.QuotaNode.Bytes,
		Access:         spool.Access(readers),
		Notify:         t.spoolFault,
	})
	if err != nil {
		return nil, err
	}
	if denied != nil {
		t.log.Warn(denied.Error())
		w.Event(rt.Event{Kind: "spool", Name: "access", Status: "failed", Detail: denied.Error()})
	}
	if stale != nil && !errors.Is(stale, os.ErrNotExist) {
		w.Event(rt.Event{Kind: "sensor", Name: "host cache", Status: "failed", Detail: stale.Error()})
	}
	return w, nil
}

// spoolFault logs the beginning or the end of a fault of the spool.
func (t *jobTracker) spoolFault(e rt.Event) {
	if t.flight != nil {
		t.flight.Count(e)
	}
	t.log.Warn(fmt.Sprintf("%s %s: %s", e.Name, e.Status, e.Detail))
}

// notifyStop returns the channel of the signals that stop the tracker; the Epilog sends SIGUSR1.
// It is called before everything else, because the Epilog of a short job may stop the tracker while
// it starts. The run is then still written and ended. rt-prolog blocks SIGUSR1 until this call.
func notifyStop() chan os.Signal {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGUSR1, syscall.SIGTERM, syscall.SIGINT)
	signal.Ignore(syscall.SIGHUP)
	return stop
}

// run records the job until wait returns, and then ends the run.
func (t *jobTracker) run(prolog *ready, stop <-chan os.Signal) error {
	sinks, ledger := []collect.Sink{t.writer, &t.last, &announcement{prolog: prolog, file: t.writer, job: t.job}}, collect.Ledger(t.writer)
	if t.flight != nil {
		sinks, ledger = append(sinks, t.flight), t.flight
		defer t.flight.Close()
	}
	recorder, err := collect.New(collect.Options{
		FirstInterval: t.cfg.Tracker.FirstInterval.Duration,
		FirstFor:      t.cfg.Tracker.FirstFor.Duration,
		Interval:      t.cfg.Tracker.Interval.Duration,
		Node:          t.node,
		NodeCache:     t.cache,
		Sources:       t.sources,
		Budget:        t.cfg.Tracker.BudgetCPU / 100,
		Drop:          []string{(*proc.JobProcs)(nil).Name(), collect.StepsName},
		Job:           t.job,
		Sinks:         sinks,
		Ledger:        ledger,
	})
	if err != nil {
		return errors.Join(err, t.writer.Close())
	}
	absent := tracker.AbsentFor(time.Now(), t.id.JobEndLimit, t.cfg.Tracker.Grace.Duration)
	ctx, cancel := context.WithCancelCause(context.Background())
	var helpers sync.WaitGroup
	t.start(&helpers, "reading of the job's environment", func() { t.environment.Follow(ctx) })
	t.start(&helpers, "search for the job's cgroup", func() { t.job.Search(ctx, t.environment.Run, t.writer.Event) })

	ended := make(chan rt.Reason)
	go func() {
		defer close(ended)
		defer t.recoverFrom("recording")
		for first := true; first || ctx.Err() == nil; first = false { // the cgroup of a job without an extern step is created again for the next step
			ended <- recorder.Run(ctx)
		}
	}()
	if err := t.writer.Wait(); err != nil {
		cancel(nil)
		t.waitRecorded(ended, settle)
		return errors.Join(err, t.job.Close())
	}
	stopped := t.wait(stop, ended, absent)
	cancel(t.whyEnded())
	if !t.waitRecorded(ended, t.cfg.Tracker.Grace.Duration) {
		t.endWithoutReading(stopped)
		return nil
	}
	// A process that hangs in the kernel can block a reader of its environment for ever.
	_ = recovery.AtMost(settle, func() error { helpers.Wait(); return nil })
	t.end(stopped)
	return nil
}

// waitRecorded waits until the recording has ended. It returns false if that takes longer
// than most.
func (t *jobTracker) waitRecorded(ended <-chan rt.Reason, most time.Duration) bool {
	late := time.After(most)
	for {
		select {
		case why, more := <-ended:
			if !more {
				return true
			}
			if why == rt.ReasonLast {
				t.noteJobEnd()
			}
		case <-late:
			return false
		}
	}
}

// wait returns after a signal to stop, or when the grace time since the job's end has passed. It
// also returns when the job has not appeared within absent. stopped reports whether there was a
// signal.
func (t *jobTracker) wait(stop <-chan os.Signal, ended <-chan rt.Reason, absent time.Duration) (stopped bool) {
	var grace, settled <-chan time.Time
	abandoned := time.After(absent)
	for {
		select {
		case _, records := <-ended:
			if !records {
				ended = nil // a panic ended the recording; the Epilog or the grace time ends the wait
				continue
			}
			t.noteJobEnd()
			grace = time.After(t.cfg.Tracker.Grace.Duration)
			if stopped {
				return true
			}
		case <-stop:
			tracker.RaisePriority()
			stopped = true
			if !t.job.Present() {
				return true
			}
			settled = time.After(settle)
		case <-settled:
			return true
		case <-grace:
			if t.job.Present() {
				grace = nil // the job's cgroup exists again
				continue
			}
			t.noteNoEpilog("no Epilog came within " + t.cfg.Tracker.Grace.String() + " of the job's end")
			return false
		case <-abandoned:
			if t.job.Appeared() {
				continue
			}
			t.noteNoEpilog("no cgroup of the job and no Epilog came within " + absent.Round(time.Second).String())
			return false
		}
	}
}

func (t *jobTracker) noteNoEpilog(detail string) {
	t.writer.Event(rt.Event{Kind: "tracker", Name: "epilog", Status: "absent", Detail: detail})
}

// noteJobEnd stores the time of the job's end and commits its last snapshot.
func (t *jobTracker) noteJobEnd() {
	t.jobEnded = time.Unix(0, t.last.wall.Load()).UTC()
	if err := t.writer.Flush(); err != nil {
		t.log.Warn(err.Error())
	}
}

// lastReading holds the values of the newest snapshot that are needed at the end of the run.
type lastReading struct {
	wall     atomic.Int64  // nanoseconds since the epoch
	oomKills atomic.Uint64 // of the job
}

// Put implements collect.Sink.
func (l *lastReading) Put(s *rt.Snapshot) error {
	l.wall.Store(s.Wall)
	if n, ok := s.Job.EventsOOMKill.Get(); ok {
		l.oomKills.Store(n)
	}
	return nil
}

// announcement is a sink that sends "ready" to the Prolog after the first snapshot, and then
// lowers the priority of the tracker's threads.
type announcement struct {
	prolog *ready
	file   *tracker.RunFile
	job    *tracker.JobWatch
}

// Put implements collect.Sink.
func (a *announcement) Put(*rt.Snapshot) error {
	if a.prolog != nil && a.file.Wait() == nil { // otherwise the Prolog gets the reason, see run
		a.prolog.send("ready")
		a.prolog = nil
		tracker.LowerPriority(a.job.Thread())
	}
	return nil
}

// recoverFrom is deferred at the top of a goroutine. It records a panic, which then ends only
// this goroutine. doing describes the goroutine.
func (t *jobTracker) recoverFrom(doing string) {
	p := recover()
	if p == nil {
		return
	}
	fault := fmt.Errorf("internal error, please report it; it ended the %s: %v", doing, p)
	t.log.Error(fmt.Sprintf("%v\n%s", fault, debug.Stack()))
	t.writer.Event(rt.Event{Kind: "tracker", Name: "fault", Status: "failed", Detail: fault.Error()})
	if err := t.writer.Flush(); err != nil {
		t.log.Warn(err.Error())
	}
}

// start runs f in a goroutine that is part of all. doing describes it, see recoverFrom.
func (t *jobTracker) start(all *sync.WaitGroup, doing string, f func()) {
	all.Go(func() {
		defer t.recoverFrom(doing)
		f()
	})
}
