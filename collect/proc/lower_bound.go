package proc

import (
	"fmt"

	"github.com/resource-tracker/rt"
)

// A comparison with the CPU time of the job's cgroup tolerates, in microseconds:
const (
	microsPerTick = 1_000_000 / rt.TicksPerSecond
	// the part of an exit that the kernel counts after the parent has waited
	exitTime = 50_000
	// each process has two figures in whole ticks, and two for those it has waited for
	roundingPerReaper, roundingPerProcess = 2 * microsPerTick, 4 * microsPerTick
)

// lowerBound adds an event if the job's processes have read or written more than the scans
// and the waiting processes have counted. The kernel reports no exit of a process to others
// than its parent, so that a daemon that begins and ends between two scans leaves one trace:
// its CPU time is in the job's cgroup, but not in the CPU time of the processes. The bytes
// of processes with less CPU time than the tolerance stay unnoticed.
//
// It is called at a last reading, when few processes or none run: the cgroup is read before
// the processes, so that those that run hide a part of the difference.
func (j *JobProcs) lowerBound(r *rt.JobReading) {
	hasController := r.IOReadBytes.Valid() && r.IOWriteBytes.Valid()
	if j.isNoted || hasController || !j.ioSeen {
		return
	}
	ticks, reapers := j.reapers.waited()
	ticks += j.lostCPU
	for i := range j.procs {
		ticks += j.procs[i].cpu
	}
	used := r.CPUUsage.Or(0)
	missed := int64(used) - int64(ticks*microsPerTick)
	rounding := reapers*roundingPerReaper + uint64(len(j.procs))*roundingPerProcess
	tolerance := max(exitTime, used/200) + rounding
	switch {
	case missed > int64(tolerance):
		j.reapers.noteMissed(fmt.Sprintf("processes that were not seen used %d ms of the job's %d ms of CPU time", missed/1000, used/1000))
	case j.isBound || j.reapers.isBound:
		j.reapers.noteMissed("a process ended that no process of the job waited for")
	default:
		return
	}
	j.isNoted = true
}

// noteMissed is note for a caller without the lock.
func (r *reapers) noteMissed(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(reason)
}

// lose keeps bytes of ended processes that no process has waited for. What such a process
// read and wrote after its last reading is missing.
func (j *JobProcs) lose(c counters) {
	j.lost.add(c)
	j.isBound = j.isBound || c != counters{}
}
