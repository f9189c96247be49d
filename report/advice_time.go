package report

import (
	"fmt"
	"math"

	"github.com/resource-tracker/rt"
)

// roundTime rounds seconds up: to minutes, to 5 minutes from half an hour on, to quarters of an
// hour from 4 hours on, and to hours from a day on.
func roundTime(secs float64) float64 {
	step := 60.0
	switch {
	case secs > 24*3600:
		step = 3600
	case secs > 4*3600:
		step = 15 * 60
	case secs > 30*60:
		step = 5 * 60
	}
	return math.Ceil(secs/step) * step
}

// time advises on the time limit.
func (a *adviser) time() {
	values := a.values(func(j *Job) rt.Opt[float64] { return j.ElapsedSecs })
	p := predict(values)
	one := Advice{Resource: "time", Verdict: NotKnown, Explain: p.explain("elapsed time", Clock(rt.Some(p.highest)))}
	p.promise(&one)
	stopped := a.stoppedAt()
	if stopped > 0 {
		one.RiskPct.Clear()
		one.Explain = append(one.Explain, fmt.Sprintf("an earlier run was stopped after %s: this is only a lower bound of what it needed, so there is no promise", Clock(rt.Some(stopped))))
	}
	want := roundTime(p.bound())
	limit, known := a.job.LimitSecs.Get()
	request := "--time=" + Clock(rt.Some(want))
	took := "it took " + Clock(a.job.ElapsedSecs)
	if p.n > 1 {
		took = "the longest took " + Clock(rt.Some(p.highest))
	}
	switch {
	case p.rising:
		one.Text = took + ", and the time rises from run to run: earlier runs do not bound the next one"
	case stopped >= want:
		one.Text = fmt.Sprintf("%s, but an earlier run was stopped after %s", took, Clock(rt.Some(stopped)))
	case !known:
		one.Request = request
		one.Text = fmt.Sprintf("%s (%s); the present limit is not known", took, p.sample())
	case want < worthwhile*limit:
		one.Verdict, one.Request = Less, request
		one.Text = fmt.Sprintf("%s of %s (%s)", took, Clock(a.job.LimitSecs), p.sample())
	case p.highest > 0.9*limit:
		one.Verdict, one.Request = More, request
		one.Text = fmt.Sprintf("%s of %s, nearly all (%s)", took, Clock(a.job.LimitSecs), p.sample())
	default:
		one.Verdict = WellSized
		one.Text = fmt.Sprintf("%s of %s", took, Clock(a.job.LimitSecs))
	}
	a.add(one)
}

// stoppedAt returns the longest elapsed time of the runs that Slurm stopped before they finished; 0
// if there are none.
func (a *adviser) stoppedAt() (secs float64) {
	for _, r := range a.runs {
		switch r.Outcome {
		case rt.OutcomeTimeout:
			secs = max(secs, r.ElapsedSecs.Or(0), r.LimitSecs.Or(0))
		case rt.OutcomeTerminated: // the limit, or a cancellation before it
			secs = max(secs, r.ElapsedSecs.Or(0))
		}
	}
	return secs
}

// timedOut advises after a time limit: twice the limit, because the time that earlier runs needed
// was not enough.
func (a *adviser) timedOut() {
	if a.job.Outcome != rt.OutcomeTimeout {
		return
	}
	one := Advice{Resource: "time", Verdict: More, Runs: 1, Text: "it reached its time limit, which is not known here"}
	if limit, ok := a.job.LimitSecs.Get(); ok {
		one.Request = "--time=" + Clock(rt.Some(roundTime(2*limit)))
		one.Text = fmt.Sprintf("it was not finished at its limit of %s; how long it needs is not known: this is twice the limit", Clock(a.job.LimitSecs))
		one.Explain = []string{"a run that was stopped shows only that it needs more than its limit"}
	}
	a.add(one)
}
