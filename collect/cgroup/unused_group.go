package cgroup

import (
	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// isUnused reports whether only an earlier attempt of the job has used the group.
func (g *group) isUnused() bool { return g.earlier != nil && !g.isUsed }

// LeaveOutEarlier leaves out what g has counted so far, before the job began.
func (g *group) LeaveOutEarlier(buf *procfile.Buffer) {
	g.earlier = &rt.JobReading{}
	g.files.Read(g.earlier, buf)
	if !g.earlier.EventsOOMKill.Valid() {
		g.earlier.EventsOOMKill = g.oomKill
	}
}

// leaveUnused is called when g loses its directory in a hierarchy of v1. If this attempt has not used
// g yet, the directory can be made again. It then counts from zero. The kills stay in endedKills.
func (g *group) leaveUnused(h *hierarchy) {
	if !g.isUnused() {
		return
	}
	e := g.earlier
	figures := map[string][]*rt.Opt[uint64]{
		"cpuacct": {&e.CPUUsage, &e.CPUUser, &e.CPUSystem},
		"memory":  {&e.PageFaults, &e.MajorFaults, &e.MemPeak},
		"blkio":   {&e.IOReadBytes, &e.IOWriteBytes},
	}
	for _, c := range h.controllers {
		g.files.Drop(c)
		for _, v := range figures[c] {
			v.Clear()
		}
	}
}
