package page

import (
	"fmt"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
	sitereport "github.com/resource-tracker/rt/site/report"
)

// mostHistory is the largest number of runs of one name in a plot.
const mostHistory = 40

// history has a figure of the jobs of one name as points, and what they requested as a line.
type history struct {
	Title, ID           string
	Width, Height, Left int
	Lines               []chartLine
	Points              []historyPoint
	Request             []historyStep
}

type historyPoint struct {
	X, Y              int
	Link, Text, Class string
}

// historyStep is the request of a job: a horizontal line.
type historyStep struct{ From, To, Y int }

// historyOf returns the plots of a job and the newest earlier ones with its name and user; none if it is the only one.
func (p *Pages) historyOf(r request, f *sitereport.Found) (list []history, err error) {
	own := &f.Jobs[0]
	isNamed := own.Name != "" && own.User != ""
	if !isNamed || len(f.Jobs) > 1 {
		return nil, nil
	}
	filter := site.Filter{Cluster: own.Cluster, Users: []string{own.User}, FullName: own.Name, Until: own.Start.Add(time.Microsecond), Access: r.access}
	jobs, _, err := p.search(r.Context(), filter, "", mostHistory)
	if err != nil {
		return nil, err
	}
	jobs = slices.DeleteFunc(jobs, func(j site.JobRow) bool { return j.Name != own.Name })
	slices.Reverse(jobs)
	for _, one := range []struct {
		title string
		pair  int
		show  func(v float64) string
	}{
		{"Memory: peak and request", 2, func(v float64) string { return report.Size(rt.Some(uint64(v))) }},
		{"Cores: mean use and request", 0, report.Significant},
		{"GPUs: mean use and request", 1, report.Significant},
	} {
		h := newHistory(one.title, one.pair, jobs, own, one.show, &p.conf.Colors)
		h.ID = fmt.Sprint("history-", one.pair)
		if len(h.Points) > 1 {
			list = append(list, h)
		}
	}
	return list, nil
}

// newHistory returns the plot of a pair of figures of jobs, the oldest first.
func newHistory(title string, pair int, jobs []site.JobRow, own *site.JobRow, show func(float64) string, colors *report.Colors) history {
	h := history{Title: title, Width: coreDays.width, Height: coreDays.height, Left: 76}
	type place struct {
		job             *site.JobRow
		used, requested float64
	}
	var places []place
	highest := 0.0
	for i := range jobs {
		j := &jobs[i]
		figures, secs := j.Pairs()[pair], elapsedSecs(j.Start, j.End, j.SuspendedSecs).Or(0)
		requested, isKnown := figures[0].Get()
		if !isKnown || secs <= 0 {
			continue
		}
		one := place{j, figures[1].Or(0) / secs, requested / secs}
		places = append(places, one)
		highest = max(highest, one.used, one.requested)
	}
	if highest <= 0 {
		return h
	}
	below := h.Height - chartBelow
	y := func(v float64) int { return below - int(v/highest*float64(below-chartTop)) }
	for _, part := range chartParts {
		h.Lines = append(h.Lines, chartLine{y(highest * part), show(highest * part)})
	}
	step := float64(h.Width-h.Left) / float64(len(places))
	for i, one := range places {
		from := h.Left + int(float64(i)*step)
		point := historyPoint{
			X: from + int(step/2), Y: y(one.used), Link: linkOfRow(one.job),
			Text: fmt.Sprintf("%s: %s of %s, %s", printable.Text(one.job.Label), show(one.used), show(one.requested), outcomeOf(one.job.State, one.job.Outcome)),
		}
		switch {
		case one.job.Label == own.Label && one.job.Generation == own.Generation:
			point.Class = "own"
		case colors.OfOutcome(one.job.Outcome) == report.Harmful:
			point.Class = "harmful"
		}
		h.Points = append(h.Points, point)
		h.Request = append(h.Request, historyStep{from, from + int(step), y(one.requested)})
	}
	return h
}
