package proc

import (
	"fmt"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
)

// A comparison with the CPU time of the job's cgroup tolerates, in microseconds:
const (
	microsPerTick = 1_000_000 / rt.TicksPerSecond
	// the CPU time of an exit that the kernel adds after the parent has waited
	exitTime = 50_000
	// each process has two figures in whole ticks, and two for the children that it has waited for
	roundingPerReaper, roundingPerProcess = 2 * microsPerTick, 4 * microsPerTick
)

// unseenProcesses holds what shows that processes ran which no scan has seen, in ticks.
type unseenProcesses struct {
	lostCPU   uint64 // of ended processes that no process has waited for
	externCPU uint64 // the same of the extern step's own process, see isExternOwn
	isNoted   bool   // the event of missing bytes was added
	isIONoted bool   // the event of the processes' bytes was added
}

// cpu is the CPU time in ticks: its own, and of the children that it has waited for.
func (p *member) cpu() uint64 { return p.own[0] + p.own[1] + p.waited.now[0] + p.waited.now[1] }

// lowerBound adds an event if the job's processes have read or written more than the scans
// and the waiting processes have counted. The kernel reports the exit of a process only to
// its parent. So a daemon that begins and ends between two scans leaves one trace: its CPU
// time is only in the job's cgroup. A daemon with less CPU time than the tolerance is not
// noticed, so without the io controller all bytes are a lower bound. The event "io" says
// so.
//
// Without a cgroup that counts CPU time nothing shows such a daemon, and the bytes are always a
// lower bound.
//
// lowerBound is called at a last reading, when few processes or none run. The cgroup is read before
// the processes. CPU time that running processes use in between makes the difference smaller.
func (j *JobProcs) lowerBound(r *rt.JobReading) {
	u := &j.unseen
	hasController := r.IOReadBytes.Valid() && r.IOWriteBytes.Valid()
	if hasController || !j.ioSeen {
		return
	}
	if !u.isIONoted {
		u.isIONoted = true
		j.reapers.add(rt.Event{Time: time.Now(), Kind: "job", Name: "io", Status: "ok",
			Detail: "no io controller counts for the job: the bytes read and written are those of the processes that were seen or waited for, a lower bound"})
	}
	if u.isNoted {
		return
	}
	waited, reapers := j.reapers.waited()
	ticks, extern := waited.others+u.lostCPU, waited.extern+u.externCPU
	for i := range j.procs {
		if p := &j.procs[i]; j.isExternOwn(p) {
			extern += p.cpu()
		} else {
			ticks += p.cpu()
		}
	}
	isWithoutExtern := r.StepdCPUUsage.Valid() // cgroup v2: the job's CPU time does not include slurmstepd's
	if !isWithoutExtern {
		ticks += extern
	}
	used := r.CPUUsage.Or(0)
	missed := int64(used) - int64(ticks*microsPerTick)
	rounding := reapers*roundingPerReaper + uint64(len(j.procs))*roundingPerProcess
	tolerance := max(exitTime, used/200) + rounding
	hasNoCounter := r.Phase == rt.JobPending || !r.CPUUsage.Valid()
	switch {
	case hasNoCounter:
		j.reapers.noteMissed("no cgroup counts the CPU time of the job, which would show whether all its processes were seen")
	case missed > int64(tolerance):
		j.reapers.noteMissed(fmt.Sprintf("processes that were not seen used %d ms of the job's %d ms of CPU time", missed/1000, used/1000))
	case j.lostIO != counters{} || j.isPending() || j.reapers.isIncomplete():
		j.reapers.noteMissed("a process ended that no process of the job waited for")
	default:
		return
	}
	u.isNoted = true
}

// externStep is the step that lasts as long as the job: Slurm keeps a process in it, which sleeps.
// With cgroup v2 its CPU time counts as slurmstepd's. If the comparison included it, it
// would hide the same amount of CPU time of processes that were not seen.
const externStep = "extern"

// isExternOwn reports whether p is the process that Slurm keeps in the extern step. A
// process of a user in that step, such as an SSH session, has another parent.
func (j *JobProcs) isExternOwn(p *member) bool {
	return p.step == externStep && j.reapers.isOf(p.ppid, externStep)
}

// loseCPU adds the CPU time of an ended process that no process has waited for.
func (j *JobProcs) loseCPU(p *member) {
	if j.isExternOwn(p) {
		j.unseen.externCPU += p.cpu()
	} else {
		j.unseen.lostCPU += p.cpu()
	}
}

// isPending reports whether bytes of an ended process have not appeared in the process that should
// have waited for it. After a last reading they can no longer appear. The bytes that the ended
// process read and wrote after its last reading are then missing.
func (j *JobProcs) isPending() bool {
	return slices.ContainsFunc(j.procs, func(p member) bool { return p.io.pending != counters{} })
}

// noteMissed is note for a caller that does not hold the lock.
func (r *reapers) noteMissed(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(reason)
}
