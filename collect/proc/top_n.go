package proc

import (
	"slices"

	"github.com/resource-tracker/rt"
)

// rank keeps the indices of the n largest of a series of values.
type rank struct {
	at     []int
	values []uint64
}

func (r *rank) reset() { r.at, r.values = r.at[:0], r.values[:0] }

// offer takes value i of the series.
func (r *rank) offer(i int, value uint64, n int) {
	if len(r.at) == n && (n == 0 || value <= r.values[n-1]) {
		return
	}
	if len(r.at) < n {
		r.at, r.values = append(r.at, 0), append(r.values, 0)
	}
	k := len(r.at) - 1
	for ; k > 0 && r.values[k-1] < value; k-- {
		r.at[k], r.values[k] = r.at[k-1], r.values[k-1]
	}
	r.at[k], r.values[k] = i, value
}

// show appends the processes that used most CPU time since the walk before, then
// those that hold most memory and are not among them.
func (j *JobProcs) show(s *rt.Snapshot) {
	j.rank.reset()
	for i := range j.procs {
		if used := j.procs[i].used; used > 0 {
			j.rank.offer(i, used, j.top)
		}
	}
	j.shown = append(j.shown[:0], j.rank.at...)
	j.rank.reset()
	for i := range j.procs {
		j.rank.offer(i, j.procs[i].rss, j.top)
	}
	for _, i := range j.rank.at {
		if !slices.Contains(j.shown, i) {
			j.shown = append(j.shown, i)
		}
	}
	j.askSlowly(s.Boot)
	for _, i := range j.shown {
		s.Procs = append(s.Procs, j.procs[i].reading(j.pageSize))
	}
}
