package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/collect/cgroup"
	"github.com/resource-tracker/rt/collect/energy"
	"github.com/resource-tracker/rt/collect/gpu"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/format/gempba/live"
	"github.com/resource-tracker/rt/slurm/environ"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/tracker"
	"github.com/resource-tracker/rt/upload/streaming"
)

// tracking is a run that is being tracked: its sources and its sinks.
type tracking struct {
	run     rt.Run
	sources []collect.Source
	tree    *proc.Tree  // nil for none
	job     *cgroup.Job // the Slurm job that this process is in; nil if its cgroup is not read
	sinks   []collect.Sink
	writer  *spool.Writer         // nil without a spool
	dir     string                // of the spool
	stream  *streaming.Process    // nil if nothing is sent
	live    *broadcast            // nil without --listen
	frames  *live.Frames          // nil without gempba.connect
	out     *tracker.SampleWriter // nil if no samples are printed
	lock    tracker.StepLock
	kills   tracker.OOMKills
	rec     *collect.Recorder
}

// newRun returns the identity of the run; pid is 0 if no process tree is tracked.
func newRun(s settings, pid int, started time.Time) rt.Run {
	run := rt.Run{Identity: rt.Identity{Start: started}, Ending: rt.Ending{State: rt.StateRunning}}
	if insideSlurm() {
		if task, err := environ.FromTask(environ.NewEnv(os.Environ()), tracker.OwnStep(), started); err == nil {
			run = task
		}
	}
	setNode(&run)
	if run.User == "" {
		if u, err := user.Current(); err == nil {
			run.User = u.Username
		}
	}
	run.UID, run.GID = rt.Some(uint64(os.Getuid())), rt.Some(uint64(os.Getgid()))
	run.BootID, _ = host.BootID(s.procfs)
	if pid != 0 && !insideSlurm() {
		run.AllocCPUs, _ = cgroup.CPULimit(s.procfs) // absent after an error, which the source of the container reports
	}
	if isUnnamed := run.Meta.JobName == filepath.Base(os.Args[0]); isUnnamed && len(s.command) > 0 {
		run.Meta.JobName = filepath.Base(s.command[0]) // srun names a job after its command, which is this program
	}
	run.Meta.Merge(s.meta)
	run.Command = s.command
	run.Interval = s.interval.Seconds()
	run.TrackerVersion = rt.Version
	if pid != 0 {
		run.PID.Set(uint64(pid))
	}
	return run
}

// setNode sets a run's node to this host if Slurm does not name it.
func setNode(run *rt.Run) {
	if run.Node == "" {
		run.Node, _ = os.Hostname() // empty after an error
	}
}

// track opens all sources and sinks. failed is called when a sample cannot be written, warn
// after other errors.
func track(s settings, run rt.Run, failed, warn func(error)) (_ *tracking, err error) {
	tracker.LimitRuntime()
	t := &tracking{run: run}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
			if t.stream != nil {
				t.stream.Kill()
			}
		}
	}()
	if err := t.openSources(s, warn); err != nil {
		return nil, err
	}
	if err := t.openNamedSpool(s, warn); err != nil {
		return nil, err
	}
	if s.uploads != nil {
		if err := t.openStream(s, warn); err != nil {
			warn(fmt.Errorf("nothing is sent: %w", err))
		}
	}
	if s.connect != nil {
		t.openFrames(s, warn)
	}
	if s.listen != nil {
		if err := t.openLive(s, warn); err != nil {
			warn(fmt.Errorf("--listen is not available: %w", err))
		}
	}
	if err := t.openPrinter(s, failed); err != nil { // the last sink, so that the spool gets each snapshot first
		return nil, err
	}
	if !s.gpu {
		t.note(rt.Event{Kind: "sensor", Name: "gpu", Status: "n/a", Detail: "--gpu off: GPUs are not read"})
	}
	isComplete := s.orphans != nil && s.orphans.isSubreaper
	if t.tree != nil && !isComplete {
		t.note(rt.Event{Kind: "job", Name: "tree", Status: "at least", Detail: "a process that began and lost its parent between two readings is not counted: its new parent is not this program"})
	}
	t.kills.Step = run.Step
	t.sinks = append(t.sinks, &t.kills)
	options := collect.Options{Interval: s.interval, Sources: t.sources, Sinks: t.sinks}
	if t.writer != nil {
		options.Ledger = t.writer
	}
	t.rec, err = collect.New(options)
	return t, err
}

func (t *tracking) openSources(s settings, warn func(error)) error {
	roots := proc.NewFS(s.procfs, s.sysfs)
	t.sources = []collect.Source{proc.NewCPU(roots), proc.NewProcesses(roots)}
	var tracked []gpu.Option // selects the processes on GPUs
	if pid, ok := t.run.PID.Get(); ok {
		tree := proc.NewTree(roots, int(pid))
		t.tree = tree
		tree.ReadPSS()
		tree.ReadIO()
		if s.orphans != nil {
			tree.AddOrphans(s.orphans)
		}
		t.sources = append(t.sources, tree)
		tracked = t.tracked(gpu.Tracked{PIDs: tree.PIDs})
		if !insideSlurm() {
			t.addContainer(s, warn)
		}
	}
	t.sources = append(t.sources, proc.NewMemory(roots), proc.NewNet(roots), proc.NewDisk(roots), proc.NewSpace(roots))
	switch {
	case s.scope == rt.ScopeJob:
		pids, err := t.openScopeJob(s, warn)
		if err != nil {
			return err
		}
		tracked = t.tracked(gpu.Tracked{PIDs: pids, ByDevice: true})
	case s.keepsJob():
		if _, err := t.openJob(s); err != nil {
			warn(err)
		}
	}
	switch {
	case s.gpu:
		t.sources = append(t.sources, gpu.New("/dev", s.sysfs, tracked...))
	case !gpu.Present("/dev", s.sysfs):
		t.sources = append(t.sources, tracker.NoGPUs{})
	}
	t.sources = append(t.sources, energy.New(s.sysfs))
	return nil
}

// addContainer adds the limit of memory of the container that this process is in, if it has one.
func (t *tracking) addContainer(s settings, warn func(error)) {
	container, err := cgroup.NewContainer(s.procfs)
	switch {
	case errors.Is(err, fs.ErrNotExist): // a procfs without this process, or a kernel without cgroups
	case err != nil:
		warn(err)
	case container != nil:
		t.sources = append(t.sources, container)
	}
}

// openScopeJob adds the job of --scope job, and warns if its cgroup cannot be seen. pids lists its processes.
func (t *tracking) openScopeJob(s settings, warn func(error)) (pids func([]int) []int, err error) {
	job, err := t.openJob(s)
	isSeen := false
	switch {
	case errors.Is(err, errNoCgroups):
		t.sources = append(t.sources, unseenJob{})
		pids = func(dst []int) []int { return dst }
	case err != nil:
		return nil, err
	default:
		_, _, isSeen = job.Found()
		pids = job.Procs
	}
	if !isSeen {
		warn(fmt.Errorf("--scope job: the cgroup of job %s is not visible here, as in a container: the figures of the job are null; --scope node shows the figures of the node", t.run.Label()))
	}
	return pids, nil
}

// openJob adds the cgroup of the Slurm job that this process is in, with its steps and tasks.
func (t *tracking) openJob(s settings) (jobSource, error) {
	job, err := newJobSource(s, &t.run)
	if err != nil {
		return job, err
	}
	t.run.CgroupLayout, t.run.CgroupPath, _ = job.Found()
	t.sources, t.job = append(t.sources, job), job.Job
	return job, nil
}

// tracked completes the options of the GPU source.
func (t *tracking) tracked(o gpu.Tracked) []gpu.Option {
	o.Devices = t.run.GPUs
	o.Event = t.note
	return []gpu.Option{gpu.WithTracked(o)}
}

// note writes an event into the run's ledger, if it has a spool.
func (t *tracking) note(e rt.Event) {
	if t.writer != nil {
		t.writer.Event(e)
	}
}

// noteRunning notes how many processes the last reading of the command has left.
func (t *tracking) noteRunning() {
	if n := t.tree.Running(); n > 0 {
		who := fmt.Sprintf("%d processes", n)
		if n == 1 {
			who = "1 process"
		}
		t.note(rt.Event{Kind: "job", Name: "processes", Status: "running", Detail: who + " ran on after the end of the command: what was used after it is not counted"})
	}
}

func (t *tracking) openPrinter(s settings, failed func(error)) error {
	switch {
	case s.output != "":
		f, err := os.OpenFile(s.output, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			return fmt.Errorf("open the file for samples: %w", err)
		}
		t.out = tracker.NewSampleWriter(f, s.output, failed)
	case s.stream == os.Stderr:
		t.out = tracker.NewSampleWriter(unclosed{s.stream}, "standard error", failed)
	case s.stream != nil:
		t.out = tracker.NewSampleWriter(unclosed{s.stream}, "standard output", failed)
	default:
		return nil
	}
	e := &tracker.Samples{Out: t.out, CSV: s.csv, Live: s.live, PID: t.run.PID, Scope: s.scope}
	if t.run.Meta.JobName != "" {
		e.JobName.Set(t.run.Meta.JobName)
	}
	if t.frames != nil {
		e.Program = t.frames.Sums
	}
	t.sinks = append(t.sinks, e)
	return nil
}

// openFrames starts to read frames from the GemPBA program that gempba.connect names.
func (t *tracking) openFrames(s settings, warn func(error)) {
	var keep func(rt.ForeignReport) error
	isPrinted := s.stream != nil || s.output != ""
	switch {
	case t.writer != nil:
		keep = t.writer.Record
	case s.csv || !isPrinted:
		warn(fmt.Errorf("gempba.connect: frames of %s are kept in a spool or shown in JSON samples, and there is neither; --spool DIR makes one", s.connect))
		return
	}
	t.frames = live.ReadFrames(*s.connect, s.interval, keep, warn)
}

// openNamedSpool opens the spool. If the spool is not in s.spoolDir, it prints the directory.
func (t *tracking) openNamedSpool(s settings, warn func(error)) error {
	if !s.hasSpool() {
		return nil
	}
	dir, err := s.findSpool(spool.CheckDir)
	if err != nil {
		return err
	}
	t.dir = dir
	if err := t.openSpool(s, dir, host.Local(host.NewRoots(s.procfs, s.sysfs), os.LookupEnv), warn); err != nil {
		return fmt.Errorf("%w (--spool names another directory)", err)
	}
	if dir != s.spoolDir {
		job, _, _ := strings.Cut(t.run.Label(), ".")
		printMessage(fmt.Sprintf("resource-tracker: the readings are in %s; rt-spool --spool %s report %s\n", dir, streaming.ShellWord(dir), job))
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
	if s.uploads != nil {
		options.CommitInterval = min(s.uploads.every, 10*time.Second) // only committed rows are sent
	}
	w, err := spool.Create(dir, t.run, facts, options)
	for tries := 0; errors.Is(err, spool.ErrExists) && tries < 10; tries++ { // two commands of a batch script may start in the same millisecond
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

// end writes how the run ended and closes everything. It sends nothing.
func (t *tracking) end(exit rt.Exit) error {
	if t.stream != nil {
		t.stream.Leave()
	}
	if t.frames != nil {
		t.frames.Stop()
	}
	t.run = tracker.Ended(t.run, exit, environ.Evidence{OOMKills: t.kills.Count()})
	var err error
	if t.writer != nil {
		err = t.writer.End(t.run)
	}
	return errors.Join(err, t.close())
}

// deliver sends the rest of the ended run, until ctx is done.
func (t *tracking) deliver(ctx context.Context) {
	if t.stream != nil {
		t.stream.Finish(ctx)
	}
}

// abandon stops the stream of a run that cannot be ended because a source or a disk hangs.
func (t *tracking) abandon() {
	if t.stream != nil {
		t.stream.Abandon(errOpenRecord)
	}
}

// print waits until the samples are printed or ctx is done.
func (t *tracking) print(ctx context.Context) {
	if t.out == nil {
		return
	}
	if err := t.out.Wait(ctx); err != nil {
		warn(err)
	}
}

func (t *tracking) close() error {
	var err error
	if t.frames != nil {
		t.frames.Stop()
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
		t.out.Stop()
	}
	return errors.Join(err, t.lock.Close())
}

// unclosed is a standard stream that stays open.
type unclosed struct{ io.Writer }

// Close does nothing.
func (unclosed) Close() error { return nil }
