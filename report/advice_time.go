package report

import (
	"fmt"
	"math"

	"github.com/resource-tracker/rt"
)

// roundTime rounds seconds up to a minute, above half an hour to 5 minutes, above 4 hours to a quarter, above a day
// to hours.
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

// time advises on the time limit. The time in which the job was suspended does not count for Slurm.
func (a *adviser) time() {
	show := func(v float64) string { return Clock(rt.Some(v)) }
	p := a.predict(a.values(func(j *JobSummary) rt.Opt[float64] { return j.ElapsedSecs }), enough)
	one := Advice{Resource: "time", Verdict: NotKnown, Explain: p.explain("elapsed time", show)}
	p.promise(&one)
	stopped := a.stoppedAt()
	if stopped > 0 {
		one.RiskPct.Clear()
		one.Explain = append(one.Explain, fmt.Sprintf("an earlier run was stopped after %s: this is only a lower bound of what it needed, so there is no promise", show(stopped)))
	}
	want := roundTime(p.request())
	limit, known := a.job.LimitSecs.Get()
	request := "--time=" + show(want)
	took := onlyIf(!a.isArray, "it took ") + onlyIf(a.isArray, "the longest took ") + show(p.own)
	tookOf := took + onlyIf(known, " of "+Clock(a.job.LimitSecs))
	switch {
	case p.rising:
		one.Text = took + ", and the time rises from run to run: earlier runs do not bound the next one"
	case stopped >= want:
		one.Text = fmt.Sprintf("%s, but an earlier run was stopped after %s", took, show(stopped))
	case !known:
		one.Request = request
		one.Text = took + p.sample(show) + "; the present limit is not known"
	case want < worthwhile*limit:
		one.Verdict, one.Request = Less, request
		one.Text = tookOf + p.sample(show)
	case p.own > 0.9*limit:
		one.Verdict, one.Request = More, request
		one.Text = tookOf + ", nearly all" + p.sample(show)
	default:
		one.Verdict = WellSized
		one.Text = tookOf + onlyIf(p.runs() > 1, p.sample(show))
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
