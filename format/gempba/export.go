package gempba

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/spool"
)

// Export writes the stored lines of the GemPBA program of the job. If there are none, it writes the lines that
// rt-spool live would have sent of the run, one for each reading. With speed 0 it writes all lines at once, otherwise
// speed times as fast as they were sent.
func Export(ctx context.Context, w io.Writer, r *spool.Reader, speed float64) error {
	run := r.Run()
	p := pacer{w: w, speed: speed, run: runOf(&run)}
	known, err := writeStored(ctx, r, &p)
	if err != nil || known {
		return err
	}
	e := exporter{run: &run}
	e.tasks, err = hasTasks(ctx, r)
	if err != nil {
		return err
	}
	for s, err := range r.Snapshots(ctx, 1, 0) {
		if err != nil {
			return err
		}
		if err := p.write(ctx, e.envelope(s)); err != nil {
			return err
		}
	}
	return nil
}

// hasTasks reports whether the tasks of the run were read separately.
func hasTasks(ctx context.Context, r *spool.Reader) (bool, error) {
	for s, err := range r.Snapshots(ctx, 1, 0) {
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(s.Steps, func(t rt.StepReading) bool { return t.Task.Valid() }) {
			return true, nil
		}
	}
	return false, nil
}

// writeStored writes the stored lines, each with the last stored topology, if there are any.
func writeStored(ctx context.Context, r *spool.Reader, p *pacer) (known bool, err error) {
	var topology *Topology
	err = storedLines(ctx, r, func(_ int64, e *Envelope) error {
		known = true
		if e.Topology == nil {
			e.Topology = topology
		}
		topology = e.Topology
		return p.write(ctx, e)
	})
	return known, err
}

// runOf returns the run for the lines, nil if nothing is known of it.
func runOf(run *rt.Run) *RunIdentity {
	out := RunIdentity{
		Cluster: run.Cluster, JobID: run.JobID, ArrayJobID: run.ArrayJobID, ArrayTaskID: run.ArrayTaskID, Step: run.Step,
		JobName: run.Meta.JobName, User: run.User, UID: run.UID, Account: run.Account, Partition: run.Partition,
	}
	if out == (RunIdentity{}) {
		return nil
	}
	return &out
}

// pacer writes lines when they are due.
type pacer struct {
	w       io.Writer
	speed   float64 // 0: at once
	run     *RunIdentity
	line    []byte
	firstTS int64
	began   time.Time
}

func (p *pacer) write(ctx context.Context, e *Envelope) error {
	if e.Run == nil {
		e.Run = p.run
	}
	var err error
	p.line, err = AppendLine(p.line[:0], e)
	if err != nil {
		return err
	}
	if p.began.IsZero() {
		p.began, p.firstTS = time.Now(), e.TS
	}
	if p.speed > 0 {
		due := p.began.Add(time.Duration(float64(e.TS-p.firstTS) / p.speed * 1e6))
		if !recovery.Pause(ctx, time.Until(due)) {
			return context.Cause(ctx)
		}
	}
	_, err = p.w.Write(p.line)
	return err
}

// exporter makes lines of the readings of a run.
type exporter struct {
	run     *rt.Run
	tasks   bool     // the tasks were read separately
	workers []worker // by their ids
	first   int64    // Boot of the first reading
	before  int64    // Boot of the previous reading, 0 for none
}

// worker is one task of the job, or the whole job if its tasks are unknown.
type worker struct {
	step string
	task rt.Opt[uint64]
	seq  uint64
	pid  rt.Opt[int64]
	cpu  rt.Opt[uint64] // microseconds, at the previous reading
	boot int64          // Boot of cpu
}

func (e *exporter) envelope(s *rt.Snapshot) *Envelope {
	if e.first == 0 {
		e.first = s.Boot
	}
	out := &Envelope{
		Version: SchemaVersion, TS: s.Wall / 1e6, ElapsedSeconds: uint64(max(0, s.Boot-e.first) / 1e9),
		Workers: []WorkerFrame{},
	}
	for i := range s.Steps {
		if t := &s.Steps[i]; t.Task.Valid() {
			e.addWorker(out, s, t.Step, t.Task, t.CPUUsage, resident(t.Anon, t.Shmem), e.pid(s, t.Step, t.Task))
		}
	}
	if !e.tasks {
		e.addJob(out, s)
	}
	slices.SortFunc(out.Workers, func(a, b WorkerFrame) int { return int(a.WorkerID) - int(b.WorkerID) })
	out.Nodes = []NodeFrame{e.node(s)}
	out.Topology = e.topology(s)
	e.before = s.Boot
	return out
}

// addJob adds the one worker of a run with unknown tasks.
func (e *exporter) addJob(out *Envelope, s *rt.Snapshot) {
	if user, ok := s.Tree.CPUUserTicks.Get(); ok && s.Job.Phase == rt.JobNone {
		micros := rt.Some((user + s.Tree.CPUSystemTicks.Or(0)) * (1e6 / rt.TicksPerSecond))
		pid := rt.None[int64]()
		if p, ok := e.run.PID.Get(); ok {
			pid.Set(int64(p))
		}
		memory, _ := s.Tree.Memory(&s.Node)
		e.addWorker(out, s, "", rt.None[uint64](), micros, memory, pid)
	} else if s.Job.Phase == rt.JobPresent {
		e.addWorker(out, s, "", rt.None[uint64](), s.Job.CPUUsage, resident(s.Job.Anon, s.Job.Shmem), rt.None[int64]())
		out.Workers[len(out.Workers)-1].ProcessThreads = s.Job.Threads
	}
}

func (e *exporter) addWorker(out *Envelope, s *rt.Snapshot, step string, task rt.Opt[uint64], cpu, rss rt.Opt[uint64], pid rt.Opt[int64]) {
	at := slices.IndexFunc(e.workers, func(w worker) bool { return w.step == step && w.task == task })
	if at < 0 {
		if len(e.workers) == MaxWorkers {
			return // the limit of the format
		}
		at = len(e.workers)
		e.workers = append(e.workers, worker{step: step, task: task})
		if e.before != 0 { // the task is new: all of its CPU time is of this interval
			e.workers[at].cpu, e.workers[at].boot = rt.Some[uint64](0), e.before
		}
	}
	w := &e.workers[at]
	w.seq++
	if pid.Valid() {
		w.pid = pid
	}
	f := WorkerFrame{WorkerID: uint32(at), SeqNo: rt.Some(w.seq), WorkerLocalMS: rt.Some(s.Wall / 1e6), ProcessRSSBytes: rss}
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

// pid returns the lowest PID of the processes of the task that were read.
func (e *exporter) pid(s *rt.Snapshot, step string, task rt.Opt[uint64]) (first rt.Opt[int64]) {
	for i := range s.Procs {
		if p := &s.Procs[i]; p.Step == step && p.Task == task && int64(p.PID) < first.Or(1<<62) {
			first.Set(int64(p.PID))
		}
	}
	return first
}

// resident returns the memory of a cgroup without files, an estimate of its resident memory.
func resident(anon, shmem rt.Opt[uint64]) rt.Opt[uint64] {
	if a, ok := anon.Get(); ok {
		return rt.Some(a + shmem.Or(0))
	}
	return anon
}

func (e *exporter) node(s *rt.Snapshot) NodeFrame {
	n := &s.Node
	f := NodeFrame{
		Hostname: e.run.Node, SentinelLocalMS: rt.Some(s.Wall / 1e6), LogicalCores: n.CPUs,
		MemTotalBytes: n.MemTotal, MemAvailBytes: n.MemAvailable,
		CgroupMemUsedBytes: s.Job.MemCurrent, CgroupMemLimitBytes: s.Job.MemLimit,
		Net:  NetAggregate{BytesIn: n.NetRxBytes, BytesOut: n.NetTxBytes},
		Disk: DiskAggregate{ReadBytes: n.DiskReadBytes, WriteBytes: n.DiskWriteBytes},
	}
	if f.CgroupMemLimitBytes.Or(0) == rt.Unlimited {
		f.CgroupMemLimitBytes.Clear()
	}
	return f
}

// topology returns the part of the topology that a spool has: no sockets.
func (e *exporter) topology(s *rt.Snapshot) *Topology {
	node := TopologyNode{Hostname: e.run.Node, TotalLogicalCores: s.Node.CPUs, MemTotalBytes: s.Node.MemTotal}
	t := &Topology{}
	for i := range e.workers {
		node.WorkerIDs = append(node.WorkerIDs, uint32(i))
		t.Identities = append(t.Identities, Identity{WorkerID: uint32(i), Hostname: e.run.Node, PID: e.workers[i].pid})
	}
	t.Nodes = []TopologyNode{node}
	return t
}
