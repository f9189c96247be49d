package cgroup

import (
	"math/bits"

	"github.com/resource-tracker/rt"
)

// cpuTime is CPU time in microseconds: in total, in user mode, and in the kernel.
type cpuTime struct{ Usage, User, System int64 }

// Plus returns t + o.
func (t cpuTime) Plus(o cpuTime) cpuTime {
	return cpuTime{t.Usage + o.Usage, t.User + o.User, t.System + o.System}
}

// Minus returns t - o.
func (t cpuTime) Minus(o cpuTime) cpuTime {
	return cpuTime{t.Usage - o.Usage, t.User - o.User, t.System - o.System}
}

// most returns the greater value of each field.
func (t cpuTime) most(o cpuTime) cpuTime {
	return cpuTime{max(t.Usage, o.Usage), max(t.User, o.User), max(t.System, o.System)}
}

// clamped returns t without negative values, and with User + System no greater than Usage.
func (t cpuTime) clamped() cpuTime {
	usage := max(t.Usage, 0)
	user := min(max(t.User, 0), usage)
	return cpuTime{usage, user, min(max(t.System, 0), usage-user)}
}

// cpuTimeOf returns the CPU time of a reading; absent values are zero.
func cpuTimeOf(usage, user, system rt.Opt[uint64]) cpuTime {
	return cpuTime{int64(usage.Or(0)), int64(user.Or(0)), int64(system.Or(0))}
}

// leaveOutCPU subtracts t from the CPU time of r, if r has one. last is the result of the previous
// reading: the usage never falls below it, although t grows in whole ticks.
func leaveOutCPU(r *rt.JobReading, t, last cpuTime) {
	if t == (cpuTime{}) {
		return
	}
	left := cpuTimeOf(r.CPUUsage, r.CPUUser, r.CPUSystem).Minus(t).clamped()
	r.CPUUsage.Set(uint64(max(left.Usage, last.Usage)))
	if r.CPUUser.Valid() && r.CPUSystem.Valid() {
		r.CPUUser.Set(uint64(left.User))
		r.CPUSystem.Set(uint64(left.System))
	}
}

// cpuFigures are the figures of CPU time in a reading: in total, in user mode, and in the kernel.
type cpuFigures struct{ Usage, User, System *rt.Opt[uint64] }

// Balance scales the user and system time so that they add up to the usage. The kernel counts the
// usage exactly, but v1 samples user and system time at timer ticks. last is the result of the
// previous reading. Neither part falls below it, as in the kernel's cputime_adjust. If the usage
// fell, Balance ignores last. If a figure is absent, Balance changes nothing.
func (f cpuFigures) Balance(last cpuTime) {
	usage, hasUsage := f.Usage.Get()
	user, hasUser := f.User.Get()
	system, hasSystem := f.System.Get()
	if !hasUsage || !hasUser || !hasSystem {
		return
	}
	all, overflow := bits.Add64(user, system, 0)
	switch {
	case overflow != 0 || all == 0: // no tick yet: all is user time, as in the kernel
		system = 0
	case all != usage:
		hi, lo := bits.Mul64(system, usage)
		system, _ = bits.Div64(hi, lo, all) // at most usage
	}
	least, most := uint64(last.System), usage-uint64(last.User)
	if uint64(last.User+last.System) <= usage {
		system = min(max(system, least), most)
	}
	f.User.Set(usage - system)
	f.System.Set(system)
}
