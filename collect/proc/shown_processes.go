package proc

import (
	"cmp"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
)

// shownProcesses chooses the processes of a set for a snapshot. Those with the most CPU time since
// the last scan come first, then those with the most memory.
type shownProcesses struct {
	size    int   // number of each kind
	order   []int // scratch
	list    []int // indices in the set
	slow    pssReader
	nextPSS int64 // Boot time of the next round of PSS
}

// appendTo appends the readings of the processes to dst. boot is the time of the snapshot.
func (h *shownProcesses) appendTo(dst []rt.ProcessReading, set *processSet, boot int64) []rt.ProcessReading {
	h.list = h.list[:0]
	for _, i := range h.largest(set, func(p *member) uint64 { return p.used }) {
		if set.procs[i].used > 0 {
			h.list = append(h.list, i)
		}
	}
	for _, i := range h.largest(set, func(p *member) uint64 { return p.rss }) {
		if !slices.Contains(h.list, i) {
			h.list = append(h.list, i)
		}
	}
	h.readSlowly(set, boot)
	for _, i := range h.list {
		dst = append(dst, set.procs[i].reading())
	}
	return dst
}

// largest returns the indices of the processes with the largest values, in descending order. The result is
// valid until the next call.
func (h *shownProcesses) largest(set *processSet, value func(*member) uint64) []int {
	h.order = h.order[:0]
	for i := range set.procs {
		h.order = append(h.order, i)
	}
	slices.SortStableFunc(h.order, func(a, b int) int { return cmp.Compare(value(&set.procs[b]), value(&set.procs[a])) })
	return h.order[:min(h.size, len(h.order))]
}

// reading is the process as the snapshot shows it.
func (p *member) reading() rt.ProcessReading {
	r := rt.ProcessReading{
		PID: uint64(p.pid), Start: p.start, Comm: p.comm, Step: p.step, Task: p.task,
		UserTicks: rt.Some(p.own[0]), SystemTicks: rt.Some(p.own[1]),
		RSS: rt.Some(p.rss * pageSize), PSS: p.pss, Threads: rt.Some(p.threads),
	}
	if p.ioRead {
		r.ReadBytes.Set(p.io.now[0])
		r.WriteBytes.Set(p.io.now[1])
	}
	return r
}

// readSlowly completes the processes. It sets their PSS at most every pssPause, and their step
// and task if their cgroup does not show them.
func (h *shownProcesses) readSlowly(set *processSet, boot int64) {
	isPSSDue := boot >= h.nextPSS
	isUnlocated := func(i int) bool { return !set.procs[i].located }
	isNeeded := isPSSDue || slices.ContainsFunc(h.list, isUnlocated)
	if !isNeeded || !h.slow.free() {
		return
	}
	left := float64(pssTime)
	for _, i := range h.list {
		p := &set.procs[i]
		if !p.located {
			p.located = true
			h.slow.list = append(h.slow.list, slowRead{pid: p.pid, start: p.start, locate: true})
		}
		if cost := float64(p.rss*pageSize) * pssPerByte; isPSSDue && cost <= left {
			left -= cost
			h.slow.list = append(h.slow.list, slowRead{pid: p.pid, start: p.start})
		}
	}
	if isPSSDue {
		h.nextPSS = boot + int64(pssPause)
	}
	if len(h.slow.list) == 0 || !h.slow.run() {
		return
	}
	if isPSSDue {
		h.nextPSS = boot + int64(max(pssPause, time.Duration(float64(h.slow.took)/pssShare)))
	}
	for i := range h.slow.list {
		r := &h.slow.list[i]
		k, ok := set.at[r.pid]
		if !ok || set.procs[k].start != r.start {
			continue
		}
		if p := &set.procs[k]; r.locate {
			p.step, p.task = r.step, r.task
		} else {
			p.pss = r.pss
		}
	}
}
