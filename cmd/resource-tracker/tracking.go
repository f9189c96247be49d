package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/collect/cgroup"
	"github.com/resource-tracker/rt/collect/energy"
	"github.com/resource-tracker/rt/collect/gpu"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/slurm/environ"
	"github.com/resource-tracker/rt/spool"
)

// tracking is one run that is being tracked: its sources and where they go.
type tracking struct {
	run     rt.Run
	sources []collect.Source
	job     *cgroup.Job // the Slurm job around us; nil where its cgroup is not read
	sinks   []collect.Sink
	writer  *spool.Writer // nil without a spool
	stream  *streamer     // nil where nothing is sent
	live    *broadcast    // nil where nobody can listen
	frames  *frames       // nil where no GemPBA program is asked
	out     *outlet       // nil where no samples are printed
	turn    turn
	kills   kills
	rec     *collect.Recorder
}

// track opens all that tracking needs. failed is told, on another goroutine, when a
// sample cannot be written; warn is told what else is wrong and hurts nothing.
func track(s settings, run rt.Run, failed, warn func(error)) (_ *tracking, err error) {
	beLean()
	t := &tracking{run: run}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if err := t.openSources(s, warn); err != nil {
		return nil, err
	}
	if err := t.openNamedSpool(s, warn); err != nil {
		return nil, err
	}
	if s.streaming != nil {
		if err := t.openStream(s, warn); err != nil {
			warn(fmt.Errorf("nothing is sent: %w", err))
		}
	}
	if s.connect != nil {
		t.openFrames(s, warn)
	}
	if s.listen != nil {
		if err := t.openLive(s, warn); err != nil {
			warn(fmt.Errorf("nobody can watch: %w", err))
		}
	}
	if err := t.openPrinter(s, failed); err != nil { // the last of the sinks: what is kept comes first
		return nil, err
	}
	if !s.gpu {
		t.note(rt.Event{Time: time.Now(), Kind: "sensor", Name: "gpu", Status: "n/a", Detail: "--gpu off: not looked for, its sums are those of no GPU"})
	}
	t.kills.step = run.Step
	t.sinks = append(t.sinks, &t.kills, new(settling))
	options := collect.Options{Interval: s.interval, Sources: t.sources, Sinks: t.sinks}
	if t.writer != nil {
		options.Ledger = t.writer
	}
	t.rec, err = collect.New(options)
	return t, err
}

func (t *tracking) openSources(s settings, warn func(error)) error {
	fs := proc.NewFS(s.procfs, s.sysfs)
	t.sources = []collect.Source{proc.NewCPU(fs), proc.NewProcesses(fs)}
	var tracked []gpu.Option // whose processes on GPUs are told apart
	if pid, ok := t.run.PID.Get(); ok {
		tree := proc.NewTree(fs, int(pid))
		t.sources = append(t.sources, tree)
		tracked = t.tracked(gpu.Tracked{PIDs: tree.PIDs})
	}
	t.sources = append(t.sources, proc.NewMemory(fs), proc.NewNet(fs), proc.NewDisk(fs), proc.NewSpace(fs))
	switch {
	case s.scope == rt.ScopeJob:
		job, err := t.openJob(s)
		if err != nil {
			return err
		}
		tracked = t.tracked(gpu.Tracked{PIDs: job.Procs, ByDevice: true})
	case s.keepsJob():
		if _, err := t.openJob(s); err != nil {
			warn(err)
		}
	}
	if s.gpu {
		t.sources = append(t.sources, gpu.New("/dev", s.sysfs, tracked...))
	} else {
		t.sources = append(t.sources, noGPUs{})
	}
	t.sources = append(t.sources, energy.New(s.sysfs))
	return nil
}

// openJob adds the cgroup of the Slurm job around us, with its steps and tasks.
func (t *tracking) openJob(s settings) (jobSource, error) {
	job, err := newJobSource(s, &t.run)
	if err != nil {
		return job, err
	}
	t.run.CgroupLayout, t.run.CgroupPath, _ = job.Found()
	t.sources, t.job = append(t.sources, job), job.Job
	return job, nil
}

// tracked completes what a reading of the GPUs tells of the run.
func (t *tracking) tracked(whose gpu.Tracked) []gpu.Option {
	whose.Devices = t.run.GPUs
	whose.Event = t.note
	return []gpu.Option{gpu.WithTracked(whose)}
}

// note puts an event into the run's ledger, where it has a spool.
func (t *tracking) note(e rt.Event) {
	if t.writer != nil {
		t.writer.Event(e)
	}
}

func (t *tracking) openPrinter(s settings, failed func(error)) error {
	switch {
	case s.output != "":
		f, err := os.OpenFile(s.output, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			return fmt.Errorf("open the file for samples: %w", err)
		}
		t.out = newOutlet(f, s.output, failed)
	case s.toStdout:
		t.out = newOutlet(unclosed{os.Stdout}, "standard output", failed)
	default:
		return nil
	}
	e := &emitter{out: t.out, csv: s.csv, scope: s.scope}
	if t.run.Meta.JobName != "" {
		e.jobName.Set(t.run.Meta.JobName)
	}
	if t.frames != nil {
		e.program = t.frames.sums
	}
	t.sinks = append(t.sinks, e)
	return nil
}

// openNamedSpool opens the spool that was asked for. Where it lies elsewhere than
// people look, they are told.
func (t *tracking) openNamedSpool(s settings, warn func(error)) error {
	if s.spoolDir == "" && !s.anySpool {
		return nil
	}
	dir, err := s.findSpool(spool.CheckDir)
	if err != nil {
		return err
	}
	if err := t.openSpool(s, dir, readHost(s), warn); err != nil {
		return fmt.Errorf("%w (--spool names another directory)", err)
	}
	if dir != s.spoolDir {
		job, _, _ := strings.Cut(t.run.Label(), ".")
		tell(fmt.Sprintf("resource-tracker: the readings are in %s; rt-spool --spool %s report %s\n", dir, quote(dir), job))
	}
	return nil
}

func (t *tracking) openSpool(s settings, dir string, facts rt.Host, warn func(error)) error {
	options := spool.Options{
		Notify: func(e rt.Event) {
			if e.Status != "ok" {
				warn(fmt.Errorf("%s %s: %s", e.Name, e.Status, e.Detail))
			}
		},
	}
	if s.streaming != nil {
		options.CommitInterval = min(s.streaming.every, 10*time.Second) // what is not committed is not sent
	}
	w, err := spool.Create(dir, t.run, facts, options)
	for tries := 0; errors.Is(err, spool.ErrExists) && tries < 10; tries++ { // two commands of a batch script, in the same millisecond
		t.run.Start = t.run.Start.Add(time.Millisecond)
		w, err = spool.Create(dir, t.run, facts, options)
	}
	if err != nil {
		return err
	}
	t.writer = w
	t.sinks = append(t.sinks, w)
	return nil
}

// record takes readings until ctx is done, and a last one then.
func (t *tracking) record(ctx context.Context) { t.rec.Run(ctx) }

// end says how it ended and closes everything. It sends nothing.
func (t *tracking) end(exit rt.Exit) error {
	if t.stream != nil {
		t.stream.leave()
	}
	if t.frames != nil {
		t.frames.stop()
	}
	t.run.Apply(environ.Decide(exit, environ.Evidence{OOMKills: t.kills.count()}))
	t.run.State = rt.StateEnded
	var err error
	if t.writer != nil {
		err = t.writer.End(t.run)
	}
	return errors.Join(err, t.close())
}

// deliver sends what is left once the run has ended, until ctx is done.
func (t *tracking) deliver(ctx context.Context) {
	if t.stream != nil {
		t.stream.finish(ctx)
	}
}

// abandon is for a run that cannot be ended. A source or a disk hangs: nothing is
// asked of them again.
func (t *tracking) abandon() {
	if t.stream != nil {
		t.stream.cancel()
		t.stream.isKept(errOpenRecord)
	}
}

// print waits until the samples are printed or ctx is done.
func (t *tracking) print(ctx context.Context) {
	if t.out == nil {
		return
	}
	if err := t.out.wait(ctx); err != nil {
		warn(err)
	}
}

func (t *tracking) close() error {
	var err error
	if t.stream != nil {
		t.stream.cancel()
	}
	if t.frames != nil {
		t.frames.stop()
	}
	if t.live != nil {
		err = t.live.close()
	}
	if t.writer != nil {
		err = errors.Join(err, t.writer.Close())
	}
	for _, s := range t.sources {
		err = errors.Join(err, s.Close())
	}
	if t.out != nil {
		t.out.stop()
	}
	return errors.Join(err, t.turn.Close())
}
