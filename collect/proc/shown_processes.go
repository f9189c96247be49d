package proc

import (
	"slices"
	"time"

	"github.com/resource-tracker/rt"
)

// shownProcesses chooses the processes of a set for a snapshot. Those with the most CPU time since
// the last scan come first, then those with the most memory.
type shownProcesses struct {
	size    int // number of each kind
	top     topN
	list    []int // indices in the set
	slow    pssReader
	nextPSS int64 // Boot time of the next round of PSS
}

// appendTo appends the readings of the processes to dst. boot is the time of the snapshot.
func (h *shownProcesses) appendTo(dst []rt.ProcessReading, set *processSet, boot int64) []rt.ProcessReading {
	h.top.reset()
	for i := range set.procs {
		if used := set.procs[i].used; used > 0 {
			h.top.offer(i, used, h.size)
		}
	}
	h.list = append(h.list[:0], h.top.at...)
	h.top.reset()
	for i := range set.procs {
		h.top.offer(i, set.procs[i].rss, h.size)
	}
	for _, i := range h.top.at {
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

// topN keeps the indices of the n largest of a series of values, in descending order.
type topN struct {
	at     []int
	values []uint64
}

func (t *topN) reset() { t.at, t.values = t.at[:0], t.values[:0] }

// offer adds value i of the series.
func (t *topN) offer(i int, value uint64, n int) {
	isTooSmall := n == 0 || (len(t.at) == n && value <= t.values[n-1])
	if isTooSmall {
		return
	}
	if len(t.at) < n {
		t.at, t.values = append(t.at, 0), append(t.values, 0)
	}
	k := len(t.at) - 1
	for ; k > 0 && t.values[k-1] < value; k-- {
		t.at[k], t.values[k] = t.at[k-1], t.values[k-1]
	}
	t.at[k], t.values[k] = i, value
}
