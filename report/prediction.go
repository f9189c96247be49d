package report

import (
	"math"
	"slices"
)

// sampleValue is a figure of a comparable run.
type sampleValue struct {
	value   float64
	isOwn   bool // of the job itself, or of another task of its array
	isBound bool // the run did not finish, so that it needs at least this
}

// prediction bounds the next value of a figure by the values of those comparable runs that are like the job. It
// assumes nothing about their distribution. Its promise is in risk.
type prediction struct {
	own      float64 // of the job
	highest  float64 // of the runs that are like it and finished
	bound    float64 // the highest of the others that are like it; 0 for none
	n        int     // runs that are like it and finished, with the job itself
	below    int     // finished runs that are not like it, with less
	above    int     // runs that are not like it, with more
	aboveTop float64 // the highest value of above; 0 for none
	margin   float64 // part of highest
	rising   bool    // the values rise from run to run, so that they do not bound the next one
}

// predict takes the values of comparable runs, sorted from the oldest, with the job's own as the last
// one. Differences below floor do not matter.
func predict(values []sampleValue, floor float64) prediction {
	p := prediction{own: values[len(values)-1].value}
	from, to := partOf(values, floor)
	var all, like []float64
	for _, v := range values {
		isBelow := v.value < from
		if !v.isBound {
			all = append(all, v.value)
		}
		switch {
		case isBelow && v.isBound: // shows nothing
		case isBelow:
			p.below++
		case v.value > to:
			p.above++
			p.aboveTop = max(p.aboveTop, v.value)
		case v.isBound:
			p.bound = max(p.bound, v.value)
		default:
			like = append(like, v.value)
			p.highest = max(p.highest, v.value)
		}
	}
	p.n = len(like)
	p.margin = marginOf(p.n)
	isTop := p.n < fewestForTrend && p.above == 0 // the values like the job's are too few to show that all rise
	doAllRise := isTop && rises(all)
	p.rising = doAllRise || rises(like)
	return p
}

// In the order of their size, values fall apart between two neighbours if the larger one is at least
// farApart times the smaller one. They also do if it is at least apart times the smaller one, and the
// gap is at least usualGaps times the median gap.
const (
	farApart  = 1.5
	apart     = 1.15
	usualGaps = 10
)

// partOf returns the lowest and the highest value of the part to which the job's own values belong.
func partOf(values []sampleValue, floor float64) (from, to float64) {
	sorted := make([]float64, len(values))
	from, to = math.Inf(1), math.Inf(-1)
	for i, v := range values {
		sorted[i] = v.value
		if v.isOwn {
			from, to = min(from, v.value), max(to, v.value)
		}
	}
	slices.Sort(sorted)
	gaps := make([]float64, len(sorted)-1) // logarithms of ratios
	for i := range gaps {
		gaps[i] = math.Log(max(sorted[i+1], floor) / max(sorted[i], floor))
	}
	usual := 0.0
	if len(gaps) > 0 {
		usual = slices.Sorted(slices.Values(gaps))[len(gaps)/2]
	}
	isSplit := func(gap float64) bool {
		isWide := gap >= math.Log(apart) && gap >= usualGaps*usual
		return isWide || gap >= math.Log(farApart)
	}
	first, last := slices.Index(sorted, from), slices.Index(sorted, to)
	for first > 0 && !isSplit(gaps[first-1]) {
		first--
	}
	for last < len(gaps) && !isSplit(gaps[last]) {
		last++
	}
	return sorted[first], sorted[last]
}

// marginOf returns the margin above the highest of n values: one run shows nothing about the
// differences between runs, ten show most of them.
func marginOf(n int) float64 { return max(0.1, 0.5/float64(n)) }

// request is what to request, before it is rounded up.
func (p *prediction) request() float64 { return max(p.highest, p.bound) * (1 + p.margin) }

// runs is the number of comparable runs.
func (p *prediction) runs() int { return p.below + p.n + p.above }

// risk is the highest probability that the next run needs more than the request. A run like these n
// exceeds the highest of them with a probability of at most 1/(n+1). If the next run can be like any
// of the comparable ones, it exceeds that value as often as they did.
func (p *prediction) risk() float64 {
	return max(1/float64(p.n+1), float64(p.above+1)/float64(p.runs()+1))
}

// fewestForTrend is the least number of values in which rises finds a trend.
const fewestForTrend = 4

// rises reports whether the values rise, by the test of Mann and Kendall. Without a trend they rise as much with a
// probability of at most 5 %.
func rises(values []float64) bool {
	const significant = 0.05
	score := 0
	for i, a := range values {
		for _, b := range values[i+1:] {
			switch {
			case b > a:
				score++
			case b < a:
				score--
			}
		}
	}
	return score > 0 && scoreAtLeast(len(values), score) <= significant
}

// scoreAtLeast returns the probability that n different values in random order have at least this score. The score is
// the number of pairs in ascending order minus the number of all other pairs. Equal values make the probability
// smaller.
func scoreAtLeast(n, score int) float64 {
	const exact = 30 // from here on the normal distribution is close enough
	pairs := n * (n - 1) / 2
	if n > exact {
		deviation := math.Sqrt(float64(n*(n-1)*(2*n+5)) / 18)
		return math.Erfc(float64(score-1)/deviation/math.Sqrt2) / 2
	}
	// ways[k] is the probability of k pairs out of order: value i is out of order with 0 to i
	// earlier ones, all equally likely.
	ways := make([]float64, pairs+1)
	ways[0] = 1
	for i := 1; i < n; i++ {
		next := make([]float64, pairs+1)
		for k, p := range ways {
			for more := 0; more <= i && k+more <= pairs; more++ {
				next[k+more] += p / float64(i+1)
			}
		}
		ways = next
	}
	sum := 0.0
	for k := 0; pairs-2*k >= score; k++ {
		sum += ways[k]
	}
	return sum
}
