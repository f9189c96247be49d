package joblist

import (
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

// figures are what a list uses of a run. A list is made of them alone, so that it is the same
// with and without an index.
type figures struct {
	run       rt.Run // without what no list shows
	abandoned bool
	elapsed   rt.Opt[float64] // seconds

	used, allocated, usedPct rt.Opt[float64] // CPU time in seconds
	cores                    rt.Opt[uint64]
	coresOf                  string

	peak, limit, oomKills rt.Opt[uint64] // memory in bytes
	peakPct               rt.Opt[float64]

	gpus     []rt.Opt[float64] // the time in which each was busy, in percent
	last     time.Time         // the last reading
	complete bool
}

func figuresOf(s *report.Summary) *figures {
	r := &s.Run
	f := &figures{
		abandoned: s.Abandoned, elapsed: s.ElapsedSecs, used: s.CPU.UsedSecs, allocated: s.CPU.AllocatedSecs, usedPct: s.CPU.UsedPct, cores: s.CPU.Cores, coresOf: s.CPU.CoresOf,
		peak: s.Memory.PeakBytes, limit: s.Memory.LimitBytes, oomKills: s.Memory.OOMKills, peakPct: s.Memory.PeakPct, last: s.Record.Last, complete: s.Record.Complete,
	}
	f.run.Identity, f.run.Ending, f.run.Meta.JobName = r.Identity, r.Ending, r.Meta.JobName
	f.run.User, f.run.Account, f.run.Partition, f.run.NodeList, f.run.GPUs = r.User, r.Account, r.Partition, r.NodeList, r.GPUs
	f.run.PID, f.run.NumNodes, f.run.JobStart, f.run.JobEndLimit = r.PID, r.NumNodes, r.JobStart, r.JobEndLimit
	for i := range s.GPUs {
		f.gpus = append(f.gpus, s.GPUs[i].BusyPct)
	}
	return f
}

// summary returns a summary with the figures.
func (f *figures) summary() *report.Summary {
	s := &report.Summary{Label: f.run.Label(), Run: f.run, Abandoned: f.abandoned, ElapsedSecs: f.elapsed}
	s.CPU.UsedSecs, s.CPU.AllocatedSecs, s.CPU.UsedPct, s.CPU.Cores, s.CPU.CoresOf = f.used, f.allocated, f.usedPct, f.cores, f.coresOf
	s.Memory.PeakBytes, s.Memory.LimitBytes, s.Memory.PeakPct, s.Memory.OOMKills = f.peak, f.limit, f.peakPct, f.oomKills
	s.Record.Last, s.Record.Complete = f.last, f.complete
	for _, busy := range f.gpus {
		s.GPUs = append(s.GPUs, report.GPU{BusyPct: busy})
	}
	return s
}

// code encodes or decodes the figures of a run that has ended.
func (f *figures) code(c *coder) {
	r := &f.run
	for _, p := range [...]*string{
		&r.Cluster, &r.Step, &r.Node, &r.SLUID, &r.BootID, &r.User, &r.Account, &r.Partition, &r.NodeList, &r.GPUs, &r.Meta.JobName,
		(*string)(&r.State), (*string)(&r.Outcome), &r.OutcomeSource, &f.coresOf,
	} {
		c.text(p)
	}
	for _, p := range [...]*rt.Opt[uint64]{
		&r.JobID, &r.ArrayJobID, &r.ArrayTaskID, &r.HetJobID, &r.HetJobOffset, &r.PID, &r.NumNodes, &f.cores, &f.peak, &f.limit, &f.oomKills,
	} {
		optional(c, p, c.uint)
	}
	for _, p := range [...]*rt.Opt[int64]{&r.ExitCode, &r.ExitSignal, &r.DerivedExit} {
		optional(c, p, c.int)
	}
	for _, p := range [...]*rt.Opt[float64]{&f.elapsed, &f.used, &f.allocated, &f.usedPct, &f.peakPct} {
		optional(c, p, c.float)
	}
	for _, p := range [...]*time.Time{&r.Start, &r.JobStart, &r.JobEndLimit, &r.End, &f.last} {
		c.time(p)
	}
	c.uint(&r.Attempt)
	c.bool(&f.complete)
	for i := range c.count(len(f.gpus)) {
		if c.decoding {
			f.gpus = append(f.gpus, rt.None[float64]())
		}
		optional(c, &f.gpus[i], c.float)
	}
}
