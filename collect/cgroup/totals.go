package cgroup

import "github.com/resource-tracker/rt"

// counters are the fields of a reading that only grow while the cgroup lives.
func counters(j *rt.JobReading) [19]*rt.Opt[uint64] {
	return [...]*rt.Opt[uint64]{
		&j.CPUUsage, &j.CPUUser, &j.CPUSystem, &j.CPUThrottled, &j.StepdCPUUsage,
		&j.PageFaults, &j.MajorFaults,
		&j.EventsHigh, &j.EventsMax, &j.EventsOOM, &j.EventsOOMKill,
		&j.IOReadBytes, &j.IOWriteBytes,
		&j.CPUStallSome, &j.CPUStallFull, &j.MemStallSome, &j.MemStallFull, &j.IOStallSome, &j.IOStallFull,
	}
}

// countedBy are those of them that a controller of v1 counts.
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

// inheritTotals fills what is absent in r of counters, peak and limit with what
// the last good reading had. Gauges stay absent: the kernel no longer tells them.
func inheritTotals(r, last *rt.JobReading) {
	mine, theirs := counters(r), counters(last)
	for i := range mine {
		if !mine[i].Valid() {
			*mine[i] = *theirs[i]
		}
	}
	if !r.MemPeak.Valid() {
		r.MemPeak = last.MemPeak
	}
	if !r.MemLimit.Valid() {
		r.MemLimit = last.MemLimit
	}
}

// addTotals adds to the counters of r what an earlier cgroup of the job had at its
// end, and keeps the higher peak.
func addTotals(r, earlier *rt.JobReading) {
	mine, theirs := counters(r), counters(earlier)
	for i := range mine {
		addTo(mine[i], *theirs[i])
	}
	if p, ok := earlier.MemPeak.Get(); ok && p > r.MemPeak.Or(0) {
		r.MemPeak.Set(p)
	}
	if !r.MemLimit.Valid() {
		r.MemLimit = earlier.MemLimit
	}
}
