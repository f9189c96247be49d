package top

import (
	"time"

	"github.com/resource-tracker/rt"
)

// figures computes those of the interval that cur ends. prev is nil for the first
// reading, which has only gauges.
func figures(prev, cur *rt.Snapshot) Figures {
	f := Figures{Read: rt.Some(time.Unix(0, cur.Wall).UTC())}
	p := rt.DeriveProcess(prev, cur)
	switch {
	case cur.Job.Phase != rt.JobNone:
		f.Memory, f.CPUSecs = cur.Job.MemCurrent, scaled(toFloat(cur.Job.CPUUsage), 1e-6)
		f.setLimit(cur.Job.MemLimit)
	case cur.Tree.CPUUserTicks.Valid() || cur.Tree.RSS.Valid():
		f.Memory = p.Memory
		f.setLimit(cur.Node.MemTotal)
		if user, ok := cur.Tree.CPUUserTicks.Get(); ok && cur.Tree.CPUSystemTicks.Valid() {
			f.CPUSecs.Set(float64(user+cur.Tree.CPUSystemTicks.Or(0)) / rt.TicksPerSecond)
		}
	default: // the whole node
		s := rt.DeriveScalars(prev, cur, rt.ScopeNode)
		p.CPUUsage, p.DiskReadBytes, p.DiskWriteBytes, p.Children = s.CPUUsage, s.DiskReadBytes, s.DiskWriteBytes, s.Processes
		f.Memory = cur.Node.MemUsed()
		f.setLimit(cur.Node.MemTotal)
	}
	f.Processes = p.Children
	if prev == nil {
		return f
	}
	f.Cores = p.CPUUsage
	if secs := float64(cur.Boot-prev.Boot) / 1e9; secs > 0 {
		f.ReadRate = scaled(toFloat(p.DiskReadBytes), 1/secs)
		f.WriteRate = scaled(toFloat(p.DiskWriteBytes), 1/secs)
	}
	return f
}

func (f *Figures) setLimit(limit rt.Opt[uint64]) {
	if v, ok := limit.Get(); ok && v == rt.Unlimited {
		f.Unlimited = true
		return
	}
	f.Limit = limit
}

// setMean sets the mean over the time since the first reading.
func (f *Figures) setMean(d time.Duration) {
	if secs := d.Seconds(); secs > 0 {
		f.MeanCores = scaled(f.CPUSecs, 1/secs)
	}
}
