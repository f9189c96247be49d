package proc

import (
	"slices"

	"github.com/resource-tracker/rt"
)

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

// show appends the processes that used most CPU time since the last scan, then those
// with most memory that are not among them.
func (j *JobProcs) show(s *rt.Snapshot) {
	j.top.reset()
	for i := range j.procs {
		if used := j.procs[i].used; used > 0 {
			j.top.offer(i, used, j.topSize)
		}
	}
	j.shown = append(j.shown[:0], j.top.at...)
	j.top.reset()
	for i := range j.procs {
		j.top.offer(i, j.procs[i].rss, j.topSize)
	}
	for _, i := range j.top.at {
		if !slices.Contains(j.shown, i) {
			j.shown = append(j.shown, i)
		}
	}
	j.readSlowly(s.Boot)
	for _, i := range j.shown {
		s.Procs = append(s.Procs, j.procs[i].reading(j.pageSize))
	}
}
