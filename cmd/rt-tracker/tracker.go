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
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/internal/config"
	"github.com/resource-tracker/rt/internal/hostfacts"
	"github.com/resource-tracker/rt/internal/logging"
	"github.com/resource-tracker/rt/slurm/hook"
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
	state   hook.State
	job     *jobWatch
	writer  *spool.Writer
	node    []collect.Source // of the node's values
	lease   *collect.Lease   // shares those; nil where that cannot be
	sources []collect.Source
	last    lastReading
	flight  *flight // nil for none

	mu       sync.Mutex
	tracked  rt.Run
	batch    *proc.ExitStatus // of the batch script, once it is known
	jobEnded time.Time        // when its cgroup emptied
}

// newTracker opens all that is needed. Nothing of the job has to be there yet.
func newTracker(cfg config.Config, tracked rt.Run, log *logging.Logger) (_ *tracker, err error) {
	t := &tracker{cfg: cfg, log: log, state: hook.State{Dir: cfg.Tracker.StateDir}}
	t.subject = fmt.Sprintf("job %s@%s", tracked.Label(), tracked.Node)
	tracked.State, tracked.TrackerVersion = rt.StateRunning, rt.Version
	tracked.Interval = cfg.Tracker.Interval.Seconds()
	if tracked.BootID == "" {
		if tracked.BootID, err = host.BootID(procRoot); err != nil {
			return nil, err
		}
	}
	t.tracked = tracked
	if t.job, err = watchJob(&tracked, func(err error) { log.Error(t.subject, err) }); err != nil {
		return nil, err
	}
	t.openSources()
	facts, stale := hostfacts.Known(cfg.Tracker.HostCache, host.NewRoots(procRoot, sysRoot), os.LookupEnv, time.Now())
	if err = t.openSpool(facts); err != nil {
		return nil, errors.Join(err, t.job.Close())
	}
	t.flight = newFlight(cfg.Spool.Dir, &tracked, cfg.Tracker.FlightRecorder.Bytes, t.writer)
	t.openLease()
	if stale != nil && !errors.Is(stale, os.ErrNotExist) {
		t.writer.Event(rt.Event{Time: time.Now(), Kind: "sensor", Name: "host cache", Status: "failed", Detail: stale.Error()})
	}
	return t, nil
}

// spoolFault logs what the disk does to us, once when it begins and once when it is over.
func (t *tracker) spoolFault(e rt.Event) {
	if t.flight != nil {
		t.flight.count(e)
	}
	t.log.Warning(t.subject, fmt.Sprintf("%s %s: %s", e.Name, e.Status, e.Detail))
}

// listen hears those who tell a tracker to stop from now on. It comes before all else:
// the Epilog of a short job on a busy node comes while its tracker still starts, which
// has its run to write and to end all the same.
func listen() <-chan os.Signal {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	signal.Ignore(syscall.SIGHUP)
	return told
}

// run records until the job has ended and its Epilog has said how.
func (t *tracker) run(prolog *ready, told <-chan os.Signal) error {
	sinks, ledger := []collect.Sink{t.writer, &t.last, &announcement{prolog: prolog, job: t.job}}, collect.Ledger(t.writer)
	if t.flight != nil {
		sinks, ledger = append(sinks, t.flight), t.flight
		defer t.flight.Close()
	}
	recorder, err := collect.New(collect.Options{
		FirstInterval: t.cfg.Tracker.FirstInterval.Duration,
		FirstFor:      t.cfg.Tracker.FirstFor.Duration,
		Interval:      t.cfg.Tracker.Interval.Duration,
		Node:          t.node,
		Lease:         t.lease,
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
	alone := aloneFor(time.Now(), t.tracked.JobEndLimit, t.cfg.Tracker.Grace.Duration)
	ctx, cancel := context.WithCancel(context.Background())
	var side sync.WaitGroup
	t.aside(&side, "learning of the job's processes", func() { t.learn(ctx) })
	t.aside(&side, "seeking the job's cgroup", func() { t.seek(ctx) })

	ended := make(chan rt.Reason)
	go func() {
		defer close(ended)
		defer t.survive("recording")
		for first := true; first || ctx.Err() == nil; first = false { // a job without an extern step comes back with its next step
			ended <- recorder.Run(ctx)
		}
	}()
	stopped := t.wait(told, ended, alone)
	cancel()
	if !t.recorded(ended, t.cfg.Tracker.Grace.Duration) {
		return t.endAlone(stopped)
	}
	// A process that has hung in the kernel can keep its reader for ever.
	awaited(&side, settle)
	return t.end(stopped)
}

// recorded waits for the last snapshot, most at most, and is false where it does not come.
func (t *tracker) recorded(ended <-chan rt.Reason, most time.Duration) bool {
	late := time.After(most)
	for {
		select {
		case why, more := <-ended:
			if !more {
				return true
			}
			if why == rt.ReasonLast {
				t.jobIsOver()
			}
		case <-late:
			return false
		}
	}
}

// aloneMax is how long a tracker stays whose job never appears and has no known
// time limit.
const aloneMax = 24 * time.Hour

// aloneFor is how long a tracker waits for word of a job that never appears, which
// is also that of a node where Slurm uses no cgroups: until the job must be over.
func aloneFor(now, limit time.Time, grace time.Duration) time.Duration {
	if limit.IsZero() {
		return aloneMax
	}
	return max(limit.Sub(now), 0) + grace
}

// wait returns when somebody tells the tracker to stop, when its job has been over
// for the grace time, or when the job has not appeared within alone; it says
// whether it was told.
func (t *tracker) wait(told <-chan os.Signal, ended <-chan rt.Reason, alone time.Duration) (stopped bool) {
	var grace, settled <-chan time.Time
	abandoned := time.After(alone)
	for {
		select {
		case _, records := <-ended:
			if !records {
				ended = nil // a fault ended it; the Epilog or the grace time ends the rest
				continue
			}
			t.jobIsOver()
			grace = time.After(t.cfg.Tracker.Grace.Duration)
			if stopped {
				return true
			}
		case <-told:
			beUrgent()
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
			t.noEpilog("no Epilog came within " + t.cfg.Tracker.Grace.String() + " of the job's end")
			return false
		case <-abandoned:
			if t.job.appeared() {
				continue
			}
			t.noEpilog("no cgroup of the job and no Epilog came within " + alone.Round(time.Second).String())
			return false
		}
	}
}

func (t *tracker) noEpilog(detail string) {
	t.writer.Event(rt.Event{Time: time.Now(), Kind: "tracker", Name: "epilog", Status: "absent", Detail: detail})
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
	prolog   *ready
	job      *jobWatch
	readings int
}

// shedAt is the reading after which a tracker begins to collect garbage and sheds: one
// of a short job ends with what it has, so that no Epilog waits for that.
const shedAt = 10

// Put implements collect.Sink.
func (a *announcement) Put(*rt.Snapshot) error {
	if a.prolog != nil {
		a.prolog.say("ready")
		a.prolog = nil
		bePolite(a.job.current().Thread())
	}
	if a.readings++; a.readings == shedAt {
		collectGarbage()
		shed()
	}
	return nil
}
