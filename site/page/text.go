package page

import (
	"fmt"
	"strconv"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// dash stands for what is not known.
const dash = "–"

// hours formats seconds as hours.
func hours(secs rt.Opt[float64]) string {
	s, ok := secs.Get()
	if !ok {
		return dash
	}
	h := s / 3600
	switch {
	case h == 0:
		return "0"
	case h >= 100:
		return grouped(int64(h + 0.5))
	case h >= 10:
		return strconv.FormatFloat(h, 'f', 1, 64)
	}
	return strconv.FormatFloat(h, 'f', 2, 64)
}

// grouped writes a number with a space after each three digits.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// scaled multiplies a figure that is known.
func scaled(v rt.Opt[float64], by float64) rt.Opt[float64] {
	return rt.Map(v, func(n float64) float64 { return n * by })
}

// share is a part of a whole, in percent.
type share struct {
	Pct     float64
	IsKnown bool
	Mark    report.Mark
	Level   report.Level
}

func shareOf(used, reserved rt.Opt[float64], mark report.Mark) share {
	whole, isKnown := reserved.Get()
	if !isKnown || whole <= 0 {
		return share{}
	}
	return share{Pct: used.Or(0) / whole * 100, IsKnown: true, Mark: mark}
}

// percent is the share as a figure.
func (s share) percent() (pct rt.Opt[float64]) {
	if s.IsKnown {
		pct.Set(s.Pct)
	}
	return pct
}

// Class is the class of the bar.
func (s share) Class() string { return s.Level.Name() }

// Text is the share as text.
func (s share) Text() string {
	if !s.IsKnown {
		return dash
	}
	return s.Mark.Sign(fmt.Sprintf("%.0f %%", s.Pct))
}

// meter is the value of a meter element for a percentage.
func meter(pct float64) string { return strconv.FormatFloat(min(pct, 100), 'f', 1, 64) }

// ago formats how long ago an instant was, with one unit.
func ago(at, now time.Time) string {
	d := now.Sub(at)
	switch {
	case at.IsZero():
		return dash
	case d < time.Minute:
		return "now"
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d/time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d/time.Hour))
	}
	return grouped(int64(d/(24*time.Hour))) + " d"
}

// readAgo formats the age of a reading.
func readAgo(at, now time.Time) string {
	if now.Sub(at) < time.Minute {
		return "just now"
	}
	return ago(at, now) + " ago"
}

func moment(t time.Time) string {
	if t.IsZero() {
		return dash
	}
	return t.UTC().Format("2006-01-02 15:04")
}

// elapsed formats the time between two instants, without the seconds in which the job was suspended.
func elapsed(from, to time.Time, suspended rt.Opt[float64]) string {
	return elapsedText(elapsedSecs(from, to, suspended))
}

func elapsedSecs(from, to time.Time, suspended rt.Opt[float64]) (secs rt.Opt[float64]) {
	if from.IsZero() || to.Before(from) {
		return secs
	}
	all, without := to.Sub(from).Seconds(), suspended.Or(0)
	if without <= all {
		all -= without
	}
	return rt.Some(all)
}

func elapsedText(secs rt.Opt[float64]) string {
	s, isKnown := secs.Get()
	if !isKnown {
		return dash
	}
	const day = 24 * time.Hour
	d := time.Duration(s * float64(time.Second)).Round(time.Second)
	text := fmt.Sprintf("%d:%02d:%02d", d%day/time.Hour, d%time.Hour/time.Minute, d%time.Minute/time.Second)
	if d >= day {
		text = fmt.Sprintf("%dd %s", d/day, text)
	}
	return text
}

// summaryOf returns the figures that came with the finish of a run, the zero value for none.
func summaryOf(run site.StoredRun) (f report.RunFigures) {
	if run.Finish == nil {
		return f
	}
	return site.SummaryOf(run.Finish.Summary)
}
