package report

import "github.com/resource-tracker/rt"

// maxColumns bounds the columns of a series: one line of a terminal with its legend.
const maxColumns = 60

// point is one interval of a run, in seconds since its first reading.
type point struct {
	from, to float64
	cores    rt.Opt[float64] // mean of the interval
	memory   rt.Opt[uint64]  // bytes at its end
}

// resample distributes the intervals to columns of equal length. CPU time is divided in
// proportion to the overlap of interval and column; memory is the highest reading.
func resample(points []point) Series {
	var s Series
	if len(points) == 0 {
		return s
	}
	begin, end := points[0].from, points[len(points)-1].to
	n := min(len(points), maxColumns)
	s.ColumnSecs = (end - begin) / float64(n)
	s.Cores = make([]rt.Opt[float64], n)
	s.MemoryBytes = make([]rt.Opt[float64], n)
	if s.ColumnSecs <= 0 {
		return s
	}
	weight := make([]float64, n)
	for _, p := range points {
		first := min(int((p.from-begin)/s.ColumnSecs), n-1)
		for c := first; c < n; c++ {
			// The conversions prevent a fused multiply-add, which only some architectures
			// have: the digits must be the same on all.
			left := begin + float64(float64(c)*s.ColumnSecs)
			overlap := min(p.to, left+s.ColumnSecs) - max(p.from, left)
			if overlap <= 1e-9*s.ColumnSecs {
				if left >= p.to {
					break
				}
				continue
			}
			if v, ok := p.cores.Get(); ok {
				s.Cores[c].Set(s.Cores[c].Or(0) + float64(v*overlap))
				weight[c] += overlap
			}
			raise(&s.MemoryBytes[c], scaled(p.memory, 1))
		}
	}
	for c := range s.Cores {
		if weight[c] > 0 {
			s.Cores[c].Set(s.Cores[c].Or(0) / weight[c])
		}
	}
	return s
}
