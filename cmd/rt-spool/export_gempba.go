package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/gempba"
	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/spool"
)

// exportGemPBA writes the lines that a GemPBA program of the job had sent, where some
// were kept; else what live would have sent of the run, one line for each reading.
func exportGemPBA(ctx context.Context, w io.Writer, r *spool.Reader, _ rt.Scope) error {
	return replayGemPBA(ctx, w, r, 0)
}

// replayGemPBA writes the lines as fast as it can with speed 0, else speed times as
// fast as they came.
func replayGemPBA(ctx context.Context, w io.Writer, r *spool.Reader, speed float64) error {
	run := r.Run()
	p := pacer{w: w, speed: speed, run: gempbaRun(&run)}
	known, err := keptGemPBA(ctx, r, &p)
	if err != nil || known {
		return err
	}
	last, err := r.LastSeq()
	if err != nil {
		return err
	}
	e := gempbaExport{run: &run}
	if e.tasks, err = hasTasks(ctx, r, last); err != nil {
		return err
	}
	for s, err := range r.Snapshots(ctx, 1, last) {
		if err != nil {
			return fmt.Errorf("%s: %w", r.Path(), err)
		}
		if err := p.write(ctx, e.envelope(s)); err != nil {
			return err
		}
	}
	return nil
}

// hasTasks says whether the run's tasks were read one by one.
func hasTasks(ctx context.Context, r *spool.Reader, last int64) (bool, error) {
	for s, err := range r.Snapshots(ctx, 1, last) {
		if err != nil {
			return false, fmt.Errorf("%s: %w", r.Path(), err)
		}
		if slices.ContainsFunc(s.Steps, func(t rt.StepReading) bool { return t.Task.Valid() }) {
			return true, nil
		}
	}
	return false, nil
}

// keptGemPBA writes the lines that were kept, each with the topology that was kept
// last. It is false where there are none.
func keptGemPBA(ctx context.Context, r *spool.Reader, p *pacer) (known bool, err error) {
	var topology *gempba.Topology
	err = gempbaLines(ctx, r, func(_ int64, e *gempba.Envelope) error {
		known = true
		if e.Topology == nil {
			e.Topology = topology
		}
		topology = e.Topology
		return p.write(ctx, e)
	})
	return known, err
}

// gempbaRun says in the lines whose they are, nil where nobody knows.
func gempbaRun(run *rt.Run) *gempba.Run {
	out := gempba.Run{
		Cluster: run.Cluster, JobID: run.JobID, ArrayJobID: run.ArrayJobID, ArrayTaskID: run.ArrayTaskID, Step: run.Step,
		JobName: run.Meta.JobName, User: run.User, UID: run.UID, Account: run.Account, Partition: run.Partition,
	}
	if out == (gempba.Run{}) {
		return nil
	}
	return &out
}

// pacer writes lines when they are due.
type pacer struct {
	w       io.Writer
	speed   float64 // 0: at once
	run     *gempba.Run
	line    []byte
	firstTS int64
	began   time.Time
}

func (p *pacer) write(ctx context.Context, e *gempba.Envelope) error {
	if e.Run == nil {
		e.Run = p.run
	}
	var err error
	if p.line, err = gempba.AppendLine(p.line[:0], e); err != nil {
		return err
	}
	if p.began.IsZero() {
		p.began, p.firstTS = time.Now(), e.TS
	}
	if p.speed > 0 {
		due := p.began.Add(time.Duration(float64(e.TS-p.firstTS) / p.speed * 1e6))
		select {
		case <-time.After(time.Until(due)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	_, err = p.w.Write(p.line)
	return err
}

// gempbaExport makes lines of a run's readings.
type gempbaExport struct {
	run     *rt.Run
	tasks   bool           // its tasks were read one by one
	workers []gempbaWorker // by their ids
	first   int64          // Boot of the first reading
	before  int64          // of the one before, 0 for none
}

// gempbaWorker is one task of the job, or all of it where its tasks are not known.
type gempbaWorker struct {
	step string
	task rt.Opt[uint64]
	seq  uint64
	pid  rt.Opt[int64]
	cpu  rt.Opt[uint64] // microseconds, at the reading before
	boot int64          // of that
}

func (e *gempbaExport) envelope(s *rt.Snapshot) *gempba.Envelope {
	if e.first == 0 {
		e.first = s.Boot
	}
	out := &gempba.Envelope{
		Version: gempba.SchemaVersion, TS: s.Wall / 1e6, ElapsedSeconds: uint64(max(0, s.Boot-e.first) / 1e9),
		Workers: []gempba.WorkerFrame{},
	}
	for i := range s.Steps {
		if t := &s.Steps[i]; t.Task.Valid() {
			e.worker(out, s, t.Step, t.Task, t.CPUUsage, resident(t.Anon, t.Shmem), e.pid(s, t.Step, t.Task))
		}
	}
	if !e.tasks {
		e.whole(out, s)
	}
	slices.SortFunc(out.Workers, func(a, b gempba.WorkerFrame) int { return int(a.WorkerID) - int(b.WorkerID) })
	out.Nodes = []gempba.NodeFrame{e.node(s)}
	out.Topology = e.topology(s)
	e.before = s.Boot
	return out
}

// whole is the one worker of a run whose tasks are not known.
func (e *gempbaExport) whole(out *gempba.Envelope, s *rt.Snapshot) {
	if user, ok := s.Tree.CPUUserTicks.Get(); ok && s.Job.Phase == rt.JobNone {
		micros := rt.Some((user + s.Tree.CPUSystemTicks.Or(0)) * (1e6 / rt.TicksPerSecond))
		pid := rt.None[int64]()
		if p, ok := e.run.PID.Get(); ok {
			pid.Set(int64(p))
		}
		e.worker(out, s, "", rt.None[uint64](), micros, s.Tree.RSS, pid)
	} else if s.Job.Phase == rt.JobPresent {
		e.worker(out, s, "", rt.None[uint64](), s.Job.CPUUsage, resident(s.Job.Anon, s.Job.Shmem), rt.None[int64]())
		out.Workers[len(out.Workers)-1].ProcessThreads = s.Job.Threads
	}
}

func (e *gempbaExport) worker(out *gempba.Envelope, s *rt.Snapshot, step string, task rt.Opt[uint64], cpu, rss rt.Opt[uint64], pid rt.Opt[int64]) {
	at := slices.IndexFunc(e.workers, func(w gempbaWorker) bool { return w.step == step && w.task == task })
	if at < 0 {
		if len(e.workers) == gempba.MaxWorkers {
			return // the format has no room for more tasks of one run
		}
		at = len(e.workers)
		e.workers = append(e.workers, gempbaWorker{step: step, task: task})
		if e.before != 0 { // it was not there then: all of its time is since
			e.workers[at].cpu, e.workers[at].boot = rt.Some[uint64](0), e.before
		}
	}
	w := &e.workers[at]
	if w.seq++; pid.Valid() {
		w.pid = pid
	}
	f := gempba.WorkerFrame{WorkerID: uint32(at), SeqNo: rt.Some(w.seq), WorkerLocalMS: rt.Some(s.Wall / 1e6), ProcessRSSBytes: rss}
	now, ok := cpu.Get()
	before, known := w.cpu.Get()
	if ok && known && now >= before && s.Boot > w.boot {
		f.ProcessCPUPct.Set(float64(now-before) * 1e3 / float64(s.Boot-w.boot) * 100)
	}
	if ok {
		w.cpu, w.boot = cpu, s.Boot
	}
	out.Workers = append(out.Workers, f)
}

// pid is the task's first process among those that were read.
func (e *gempbaExport) pid(s *rt.Snapshot, step string, task rt.Opt[uint64]) (first rt.Opt[int64]) {
	for i := range s.Procs {
		if p := &s.Procs[i]; p.Step == step && p.Task == task && int64(p.PID) < first.Or(1<<62) {
			first.Set(int64(p.PID))
		}
	}
	return first
}

// resident is what a cgroup has in memory but for files: the nearest that it says of
// the resident memory of its processes.
func resident(anon, shmem rt.Opt[uint64]) rt.Opt[uint64] {
	if a, ok := anon.Get(); ok {
		return rt.Some(a + shmem.Or(0))
	}
	return anon
}

func (e *gempbaExport) node(s *rt.Snapshot) gempba.NodeFrame {
	n := &s.Node
	f := gempba.NodeFrame{
		Hostname: e.run.Node, SentinelLocalMS: rt.Some(s.Wall / 1e6), LogicalCores: n.CPUs,
		MemTotalBytes: n.MemTotal, MemAvailBytes: n.MemAvailable,
		CgroupMemUsedBytes: s.Job.MemCurrent, CgroupMemLimitBytes: s.Job.MemLimit,
		Net:  gempba.NetAggregate{BytesIn: n.NetRxBytes, BytesOut: n.NetTxBytes},
		Disk: gempba.DiskAggregate{ReadBytes: n.DiskReadBytes, WriteBytes: n.DiskWriteBytes},
	}
	if f.CgroupMemLimitBytes.Or(0) == rt.Unlimited {
		f.CgroupMemLimitBytes.Clear()
	}
	return f
}

// topology is what a spool knows of it: no sockets.
func (e *gempbaExport) topology(s *rt.Snapshot) *gempba.Topology {
	node := gempba.TopologyNode{Hostname: e.run.Node, TotalLogicalCores: s.Node.CPUs, MemTotalBytes: s.Node.MemTotal}
	t := &gempba.Topology{}
	for i := range e.workers {
		node.WorkerIDs = append(node.WorkerIDs, uint32(i))
		t.Identities = append(t.Identities, gempba.Identity{WorkerID: uint32(i), Hostname: e.run.Node, PID: e.workers[i].pid})
	}
	t.Nodes = []gempba.TopologyNode{node}
	return t
}

// speedOf is how fast to replay, 0 for as fast as possible.
func speedOf(c *cli.Context) (float64, error) {
	speed := c.Float64("speed")
	switch {
	case !c.IsSet("speed"):
		return 0, nil
	case c.String("format") != "gempba" || c.String("output") != "":
		return 0, rtcli.Usage("--speed: it is for --format gempba on standard output")
	case !(speed > 0) || math.IsInf(speed, 0):
		return 0, rtcli.Usage("--speed %v: it is a factor above 0, and 1 is as fast as it came", speed)
	}
	return speed, nil
}
