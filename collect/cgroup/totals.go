package cgroup

import "github.com/resource-tracker/rt"

// totals are the figures that stay valid when the kernel no longer shows them: gauges do not.
const totals = rt.Counter | rt.Peak | rt.Limit

// countedBy are the counters of a controller of v1.
func countedBy(controller string, j *rt.JobReading) []*rt.Opt[uint64] {
	switch controller {
	case "cpuacct":
		return []*rt.Opt[uint64]{&j.CPUUsage, &j.CPUUser, &j.CPUSystem}
	case "cpu":
		return []*rt.Opt[uint64]{&j.CPUThrottled}
	case "memory":
		return []*rt.Opt[uint64]{&j.PageFaults, &j.MajorFaults, &j.EventsMax, &j.EventsOOMKill}
	case "blkio":
		return []*rt.Opt[uint64]{&j.IOReadBytes, &j.IOWriteBytes}
	}
	return nil
}
