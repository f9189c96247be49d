package list

import (
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

// codeFigures encodes or decodes the figures of a run that has ended.
func codeFigures(c *coder, f *report.RunFigures) {
	r := &f.Run
	for _, p := range [...]*string{
		&r.Cluster, &r.Step, &r.Node, &r.SLUID, &r.BootID, &r.User, &r.Account, &r.Partition, &r.NodeList, &r.GPUs, &r.Meta.JobName,
		(*string)(&r.State), (*string)(&r.Outcome), &r.OutcomeSource, &f.CPU.CoresOf, (*string)(&f.CPU.UsedMark), (*string)(&f.Memory.PeakMark), &f.SlurmState,
	} {
		c.text(p)
	}
	for _, p := range [...]*rt.Opt[uint64]{
		&r.JobID, &r.ArrayJobID, &r.ArrayTaskID, &r.HetJobID, &r.HetJobOffset, &r.PID, &r.NumNodes, &f.CPU.Cores, &f.Memory.PeakBytes, &f.Memory.LimitBytes, &f.Memory.OOMKills,
	} {
		optional(c, p, c.uint)
	}
	for _, p := range [...]*rt.Opt[int64]{&r.ExitCode, &r.ExitSignal, &r.DerivedExit} {
		optional(c, p, c.int)
	}
	for _, p := range [...]*rt.Opt[float64]{&f.ElapsedSecs, &f.SuspendedSecs, &f.CPU.UsedSecs, &f.CPU.AllocatedSecs, &f.CPU.UsedPct, &f.Memory.PeakPct} {
		optional(c, p, c.float)
	}
	for _, p := range [...]*time.Time{&r.Start, &r.JobStart, &r.JobEndLimit, &r.End, &f.Record.Last} {
		c.time(p)
	}
	c.uint(&r.Attempt)
	c.int(&f.Record.Readings)
	c.bool(&f.Record.Complete)
	for i := range c.count(len(f.GPUs)) {
		if c.decoding {
			f.GPUs = append(f.GPUs, report.GPUPart{})
		}
		optional(c, &f.GPUs[i].InJob, c.bool)
		optional(c, &f.GPUs[i].BusyPct, c.float)
		optional(c, &f.GPUs[i].ProcessBusyPct, c.float)
		c.uint(&f.GPUs[i].Processes)
	}
}
