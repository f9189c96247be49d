package counters

import (
	"math"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// CPUTime is CPU time in microseconds: all of it, in user mode, in the kernel.
type CPUTime struct{ Usage, User, System int64 }

// Plus returns t + o.
func (t CPUTime) Plus(o CPUTime) CPUTime {
	return CPUTime{t.Usage + o.Usage, t.User + o.User, t.System + o.System}
}

// Minus returns t - o.
func (t CPUTime) Minus(o CPUTime) CPUTime {
	return CPUTime{t.Usage - o.Usage, t.User - o.User, t.System - o.System}
}

// most is the greater of each.
func (t CPUTime) most(o CPUTime) CPUTime {
	return CPUTime{max(t.Usage, o.Usage), max(t.User, o.User), max(t.System, o.System)}
}

// clamped is t without negative values, its parts no more than the whole.
func (t CPUTime) clamped() CPUTime {
	usage := max(t.Usage, 0)
	user := min(max(t.User, 0), usage)
	return CPUTime{usage, user, min(max(t.System, 0), usage-user)}
}

// readCPUTime reads a v2 file cpu.stat.
func readCPUTime(f *procfile.File, buf *procfile.Buffer) (t CPUTime, ok bool) {
	b, ok := Read(f, buf)
	if !ok {
		return CPUTime{}, false
	}
	var r rt.JobReading
	parseCPUStat(b, &r)
	usage, ok := r.CPUUsage.Get()
	if usage > math.MaxInt64 {
		return CPUTime{}, false
	}
	return jobCPUTime(&r), ok
}

// jobCPUTime is the CPU time of a reading, zero for what it has not.
func jobCPUTime(r *rt.JobReading) CPUTime {
	return CPUTime{int64(r.CPUUsage.Or(0)), int64(r.CPUUser.Or(0)), int64(r.CPUSystem.Or(0))}
}
