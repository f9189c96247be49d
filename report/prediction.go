package report

import "math"

// prediction bounds the next value of a figure by the earlier ones, without an assumption about
// their distribution: if the runs are exchangeable, the next value exceeds the highest of n with
// a probability of at most 1/(n+1). The margin above the highest is not part of that promise.
type prediction struct {
	highest float64
	n       int
	margin  float64 // part of highest
	rising  bool    // the values rise from run to run, so that they do not bound the next one
}

// predict takes the values of the earlier runs, sorted from the oldest, at least one.
func predict(values []float64) prediction {
	p := prediction{n: len(values), margin: marginOf(len(values)), rising: rises(values)}
	for _, v := range values {
		p.highest = max(p.highest, v)
	}
	return p
}

// marginOf returns the margin above the highest of n values: one run shows nothing about the
// differences between runs, ten show most of them.
func marginOf(n int) float64 { return max(0.1, 0.5/float64(n)) }

// bound is what to request, before it is rounded up.
func (p *prediction) bound() float64 { return p.highest * (1 + p.margin) }

// risk is the highest probability that the next run needs more than highest.
func (p *prediction) risk() float64 { return 1 / float64(p.n+1) }

// rises reports whether the values rise, by the test of Mann and Kendall: without a trend the
// probability that they rise as much is at most 5 %. The test needs four values.
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

// scoreAtLeast returns the probability that n different values in random order have at least this
// score: the number of pairs in ascending order minus the number of all other pairs. Equal values
// make the probability smaller.
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
