package sonar

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// Export writes the output of sonar ps --rollup --load at each reading, as if only the job ran. One record has all
// its processes, as JSON or as free CSV.
//
// There is one record for each second with a reading, because a reader takes all records of one second for one
// invocation. It has the counters of the last reading of the second and the highest levels. A reading without the CPU
// time is left out. The format has no absent values, so the next record would seem to count its interval alone.
func Export(ctx context.Context, w io.Writer, r *spool.Reader, asJSON bool) error {
	run := r.Run()
	e := exporter{run: &run, zone: time.Local}
	last, err := r.LastSeq()
	if err != nil {
		return err
	}
	var waiting *Sample
	write := func() error {
		if waiting == nil {
			return nil
		}
		return writeSamples(w, waiting, []Sample{*waiting}, asJSON)
	}
	for s, err := range r.Snapshots(ctx, 1, last) {
		if err != nil {
			return err
		}
		if !e.timed(s) && s.Seq != last {
			continue
		}
		next, err := e.sample(s)
		if err != nil {
			return err
		}
		switch {
		case waiting == nil:
		case next.Time.After(waiting.Time):
			if err := write(); err != nil {
				return err
			}
		default:
			next.RSSAnonKiB, next.RolledUp = max(next.RSSAnonKiB, waiting.RSSAnonKiB), max(next.RolledUp, waiting.RolledUp)
			next.GPUKiB = max(next.GPUKiB, waiting.GPUKiB)
		}
		waiting = &next
	}
	return write()
}

type exporter struct {
	run   *rt.Run
	zone  *time.Location
	first int64 // Boot of the first snapshot
	prev  rt.Snapshot
}

var errNoProcesses = errors.New("the run is of a whole node, and Sonar has records of processes only: export it as csv, jsonl or ftdc")

// timed reports whether the snapshot has the CPU time of the job or the tree.
func (e *exporter) timed(s *rt.Snapshot) bool {
	switch s.Job.Phase {
	case rt.JobPending:
		return true
	case rt.JobNone:
		return s.Tree.CPUUserTicks.Valid() && s.Tree.CPUSystemTicks.Valid()
	}
	return s.Job.CPUUsage.Valid()
}

// sample returns the record of a snapshot, with the CPU time of an older one if it has none.
func (e *exporter) sample(s *rt.Snapshot) (Sample, error) {
	if e.prev.Seq == 0 {
		e.first = s.Boot
	} else {
		s.InheritCounters(&e.prev)
	}
	e.prev.CopyFrom(s)
	out := Sample{
		Version: Version, Time: time.Unix(0, s.Wall).In(e.zone).Truncate(time.Second), Host: cmp.Or(e.run.Node, "localhost"),
		User: e.user(), Cmd: e.command(), Job: e.run.JobID.Or(0), Load: loadOf(s), GPUInfo: gpusOf(s.GPUs, nil),
	}
	var micros, processes uint64
	switch t := &s.Tree; {
	case s.Job.Phase != rt.JobNone:
		micros, processes = s.Job.CPUUsage.Or(0), s.Job.Pids.Or(0)
		out.RSSAnonKiB = s.Job.Anon.Or(0) >> 10
	case t.CPUUserTicks.Valid() || e.run.PID.Valid():
		micros = (t.CPUUserTicks.Or(0) + t.CPUSystemTicks.Or(0)) * (1e6 / rt.TicksPerSecond)
		if children, ok := t.Children.Get(); ok {
			processes = children + 1
		}
	default:
		return out, errNoProcesses
	}
	out.CPUTimeSec = micros / 1e6
	if life := float64(s.Boot-e.first) / 1e3; life > 0 {
		out.CPUPct = thousandth(float64(micros) / life * 100)
	}
	if processes > 0 {
		out.RolledUp = processes - 1
	}
	e.gpus(s, &out)
	return out, nil
}

// gpus sets what the job used of the GPUs of the node.
func (e *exporter) gpus(s *rt.Snapshot, out *Sample) {
	for i := range s.GPUs {
		g := &s.GPUs[i]
		if !g.InJob.Or(false) {
			continue
		}
		out.GPUs.Indices = union(out.GPUs.Indices, []uint32{gpuIndex(s.GPUs, g)})
		if total := g.VRAMTotal.Or(0); total > 0 {
			out.GPUMemPct += float64(g.VRAMUsed.Or(0)) / float64(total) * 100
		}
	}
	if out.GPUs.Indices == nil && s.Job.Phase == rt.JobPresent {
		for _, word := range splitList(e.run.GPUs) {
			if n, err := strconv.ParseUint(word, 10, 31); err == nil {
				out.GPUs.Indices = union(out.GPUs.Indices, []uint32{uint32(n)})
			}
		}
	}
	out.GPUMemPct = thousandth(out.GPUMemPct)
	out.GPUPct = thousandth(max(0, s.GPU.Usage.Or(0)) * 100)
	out.GPUKiB = s.GPU.VRAMUsed.Or(0) >> 10
}

func (e *exporter) user() string {
	if e.run.User != "" {
		return e.run.User
	}
	if uid, ok := e.run.UID.Get(); ok {
		return NoInfoUID(uid)
	}
	return NoInfo
}

// command returns the one name for all processes of the job.
func (e *exporter) command() string {
	if len(e.run.Command) > 0 {
		return filepath.Base(e.run.Command[0])
	}
	return cmp.Or(e.run.Meta.JobName, NoInfo)
}
