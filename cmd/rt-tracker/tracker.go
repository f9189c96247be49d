package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/hostfacts"
	"github.com/resource-tracker/rt/cmd/internal/logging"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/collect/gpu"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/slurm"
	"github.com/resource-tracker/rt/spool"
)

const (
	procRoot = "/proc"
	sysRoot  = "/sys"
	devRoot  = "/dev"
)

// settle is how long a tracker that is told to stop waits for news of its job's
// end that is already on its way.
const settle = 500 * time.Millisecond

// tracker follows one job.
type tracker struct {
	cfg     config.Config
	log     *logging.Logger
	subject string // "job 12@n1", in each message
	state   slurm.State
	job     *jobWatch
	writer  *spool.Writer
	sources []collect.Source
	last    lastReading

	mu       sync.Mutex
	tracked  rt.Run
	batch    *proc.ExitStatus // of the batch script, once it is known
	jobEnded time.Time        // when its cgroup emptied
}

// newTracker opens all that is needed. Nothing of the job has to be there yet.
func newTracker(cfg config.Config, tracked rt.Run, log *logging.Logger) (_ *tracker, err error) {
	t := &tracker{cfg: cfg, log: log, state: slurm.State{Dir: cfg.Tracker.StateDir}}
	t.subject = fmt.Sprintf("job %s@%s", tracked.Label(), tracked.Node)
	tracked.State, tracked.TrackerVersion = rt.StateRunning, rt.Version
	tracked.Interval = cfg.Tracker.Interval.Seconds()
	if tracked.BootID == "" {
		if tracked.BootID, err = host.BootID(procRoot); err != nil {
			return nil, err
		}
	}
	t.tracked = tracked
	if t.job, err = watchJob(&tracked); err != nil {
		return nil, err
	}
	fs := proc.NewFS(procRoot, sysRoot)
	t.sources = []collect.Source{
		proc.NewCPU(fs), proc.NewProcesses(fs), proc.NewMemory(fs), proc.NewNet(fs),
		proc.NewDisk(fs), proc.NewSpace(fs), gpu.New(devRoot, sysRoot),
	}
	facts, stale := hostfacts.Known(cfg.Tracker.HostCache, host.NewRoots(procRoot, sysRoot), os.LookupEnv, time.Now())
	t.writer, err = spool.Create(cfg.Spool.Dir, tracked, facts, spool.Options{
		CommitInterval: cfg.Spool.CommitInterval.Duration,
		Notify:         t.spoolFault,
	})
	if err != nil {
		return nil, errors.Join(err, t.job.Close())
	}
	if stale != nil && !errors.Is(stale, os.ErrNotExist) {
		t.writer.Event(rt.Event{Time: time.Now(), Kind: "sensor", Name: "host cache", Status: "failed", Detail: stale.Error()})
	}
	return t, nil
}

// spoolFault logs what the disk does to us, once when it begins and once when it is over.
func (t *tracker) spoolFault(e rt.Event) {
	t.log.Warning(t.subject, fmt.Sprintf("%s %s: %s", e.Name, e.Status, e.Detail))
}

// run records until the job has ended and its Epilog has said how.
func (t *tracker) run(prolog *ready) error {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	signal.Ignore(syscall.SIGHUP)

	recorder, err := collect.New(collect.Options{
		FirstInterval: t.cfg.Tracker.FirstInterval.Duration,
		FirstFor:      t.cfg.Tracker.FirstFor.Duration,
		Interval:      t.cfg.Tracker.Interval.Duration,
		Sources:       t.sources,
		Job:           t.job,
		Sinks:         []collect.Sink{t.writer, &t.last, &announcement{prolog: prolog, job: t.job}},
		Ledger:        t.writer,
	})
	if err != nil {
		return errors.Join(err, t.writer.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	var side sync.WaitGroup
	side.Go(func() { t.learn(ctx) })
	side.Go(func() { t.seek(ctx) })

	ended := make(chan rt.Reason)
	side.Go(func() {
		defer close(ended)
		for ctx.Err() == nil { // a job without an extern step comes back with its next step
			ended <- recorder.Run(ctx)
		}
	})
	stopped := t.wait(told, ended)
	cancel()
	for why := range ended {
		if why == rt.ReasonLast {
			t.jobIsOver()
		}
	}
	side.Wait()
	return t.end(stopped)
}

// wait returns when somebody tells the tracker to stop, or when its job has been
// over for the grace time; it says which.
func (t *tracker) wait(told <-chan os.Signal, ended <-chan rt.Reason) (stopped bool) {
	var grace, settled <-chan time.Time
	for {
		select {
		case <-ended:
			t.jobIsOver()
			grace = time.After(t.cfg.Tracker.Grace.Duration)
			if stopped {
				return true
			}
		case <-told:
			stopped = true
			if !t.job.present() {
				return true
			}
			settled = time.After(settle)
		case <-settled:
			return true
		case <-grace:
			if t.job.present() {
				grace = nil // it came back
				continue
			}
			t.writer.Event(rt.Event{Time: time.Now(), Kind: "tracker", Name: "epilog", Status: "absent",
				Detail: "no Epilog came within " + t.cfg.Tracker.Grace.String() + " of the job's end"})
			return false
		}
	}
}

// jobIsOver remembers when that was, and makes its last snapshot durable.
func (t *tracker) jobIsOver() {
	t.mu.Lock()
	t.jobEnded = time.Unix(0, t.last.wall.Load()).UTC()
	t.mu.Unlock()
	if err := t.writer.Flush(); err != nil {
		t.log.Warning(t.subject, err.Error())
	}
}

// end writes how the job ended and closes the file.
func (t *tracker) end(stopped bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	run := t.tracked
	if layout, path, ok := t.job.Found(); ok {
		run.CgroupLayout, run.CgroupPath = layout, path
	}
	run.Apply(t.decide(stopped))
	run.State = rt.StateEnded
	if !t.jobEnded.IsZero() {
		run.End = t.jobEnded
	}
	if run.End.IsZero() {
		run.End = time.Now().UTC()
	}
	err := t.writer.End(run)
	for _, s := range t.sources {
		err = errors.Join(err, s.Close())
	}
	if t.batch != nil {
		err = errors.Join(err, t.batch.Close())
	}
	if err = errors.Join(err, t.job.Close()); err != nil {
		t.log.Error(t.subject, err)
	}
	return nil // it is logged, and the Prolog has gone long ago
}

// decide joins what the Epilog said with what the node saw.
func (t *tracker) decide(stopped bool) rt.Exit {
	exit, err := t.state.ReadExit(t.tracked.JobID.Or(0), t.tracked.Node)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			t.log.Error(t.subject, err)
		} else if stopped {
			t.writer.Event(rt.Event{Time: time.Now(), Kind: "tracker", Name: "stop", Status: "absent",
				Detail: "told to stop without any word from an Epilog"})
		}
		exit = rt.Exit{Time: time.Now().UTC()}
	}
	seen := slurm.Evidence{OOMKills: t.last.oomKills.Load(), End: t.jobEnded, Limit: t.tracked.JobEndLimit}
	if t.batch != nil {
		seen.Batch = t.batch.Status()
	}
	return slurm.Decide(exit, seen)
}

// lastReading remembers what the end of a run needs of its last snapshot.
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

// announcement lets the Prolog go as soon as the first snapshot is in the spool.
// Until then the job waits for us, and from then on we for everybody else.
type announcement struct {
	prolog *ready
	job    *jobWatch
}

// Put implements collect.Sink.
func (a *announcement) Put(*rt.Snapshot) error {
	if a.prolog != nil {
		a.prolog.say("ready")
		a.prolog = nil
		bePolite(a.job.current().Thread())
	}
	return nil
}
