package proc

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// keepScans is the number of scans after which a process is read although it has not run: the kernel can
// take memory from it, and seldom gives it some (swapoff, khugepaged). The processes that run, and those with
// the largest resident size, are always read: so in between too the snapshot has the right processes.
const keepScans = 512

// hasExactClock reports whether the kernel counts CPU time by the nanosecond. A kernel that counts it by the
// timer tick, such as user-mode Linux and one without a usable TSC, does not count a process that runs
// for less than a tick, so that cpuClock does not show that it has run.
func hasExactClock() bool {
	const finest = 1_000_000 // nanoseconds of the shortest tick
	return cpuClock(os.Getpid())%finest != 0
}

// canKeep reports whether p is as it was when it was last read. It is not if its parent has ended, because
// p then has another parent; this is also so while the ended parent is a zombie. The last scan may have found
// the end of the parent after it had kept p. A process to which bytes of an ended child are still to come is
// read in each scan, so that they are not counted twice. isRestIdle is that of the job. canKeep also sets p.hasParent.
func (j *JobProcs) canKeep(p *jobProcess, isRestIdle bool) bool {
	isDue := (p.pid+j.scans)%keepScans == 0
	isSearched := p.looks < maxLooks && p.step != ""
	isExpectingBytes := p.io.pending != counters{}
	isRead := !j.hasClock || isDue || isSearched || isExpectingBytes
	if isRead {
		return false
	}
	at, isKnown := j.at[p.ppid]
	hasParentEnded := isKnown && j.procs[at].hasEnded()
	wasRemoved := !isKnown && p.hasParent
	if hasParentEnded || wasRemoved {
		return false
	}
	p.hasParent = isKnown
	isKnownIdle := isRestIdle && p.isCurrent() && !j.isActive(p)
	return isKnownIdle || !p.hasRun()
}

// activeScans is the number of scans for which a process counts as active after it has run.
const activeScans = 2

func (j *JobProcs) isActive(p *jobProcess) bool { return j.scans-p.ranAt < activeScans }

// isRestIdle reports whether no processes have run since the last scan but the active ones: their clocks show
// all CPU time that the job's cgroup has counted. The kernel counts the same nanoseconds in both, so the
// difference is only what the cgroup's files round: less than it takes to wake a process. If an active
// process runs just now, the two differ, and the scan asks all processes.
func (j *JobProcs) isRestIdle(r *rt.JobReading) bool {
	const rounding = 2 // microseconds; v2: of the job, and of slurmstepd
	before := j.usage
	j.usage = r.CPUUsage
	isKnown := j.hasClock && before.Valid() && r.CPUUsage.Valid()
	if !isKnown {
		return false
	}
	var ran int64
	active := 0
	for i := range j.procs {
		p := &j.procs[i]
		if !j.isActive(p) {
			continue
		}
		active++
		if active > len(j.procs)/2 { // to ask them all costs less
			return false
		}
		now := cpuClock(p.pid)
		isClock := p.ranFor != 0 && now != 0
		if !isClock {
			return false
		}
		ran += now - p.ranFor
	}
	counted := int64(r.CPUUsage.Or(0)) - int64(before.Or(0))
	apart := counted - ran/1000
	return -rounding <= apart && apart <= rounding
}

// hasEnded reports whether the process is gone or a zombie.
func (p *jobProcess) hasEnded() bool {
	const ofZombie = 0 // it has no memory any more
	return !p.alive || p.rss == ofZombie
}

// hasRun reports whether the process may have run since its last complete reading. A process that has
// not run has used no CPU time, has done no I/O, has waited for no child and has switched no context.
// The kernel updates the clock of a running process at least at each timer tick, on a CPU without one
// (nohz_full) each second, so a process that began to run less than that ago counts as one that has not
// run; it has run at a later reading.
func (p *jobProcess) hasRun() bool {
	return !p.isCurrent() || cpuClock(p.pid) != p.ranFor
}

// isCurrent reports whether the last reading of the process was complete: its status was read too.
func (p *jobProcess) isCurrent() bool { return p.alive && p.ranFor != 0 && p.idle == 0 }

// cpuClock returns the CPU time of all threads of a process in nanoseconds; 0 if it cannot be read. It
// costs a tenth of a reading of /proc/<pid>/stat, has no rounding, and needs no permission.
func cpuClock(pid int) int64 {
	const scheduler = 2 // CPUCLOCK_SCHED, see clock_getcpuclockid(3)
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &t); err != nil {
		return 0
	}
	return t.Nano()
}
