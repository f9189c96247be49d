package report

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/site"
)

// Advice returns the options to request next time for a job like this one, and what else to change or why there are
// none. It reads the figures that came with the runs, not their records, and is empty without any.
func (s *Jobs) Advice(ctx context.Context, reader site.Reader, job site.JobRow) (options, other string, err error) {
	stored, _, err := s.Registry.Visible.OfJob(ctx, job, reader.Access(), "", batchRuns)
	if err != nil {
		return "", "", err
	}
	own := (&Found{Runs: stored}).delivered()
	if len(own) == 0 {
		return "", "", nil
	}
	earlier, err := s.earlier(ctx, reader, job.Cluster, &own[0].Run)
	if err != nil {
		return "", "", err
	}
	report.Together(own)
	jobs := report.Jobs(own)
	adviseFrom(jobs, own, summariesOf(earlier))
	last := jobs[len(jobs)-1]
	options, other = last.Requests()
	if options == "" {
		other = last.ShortAdvice()
	}
	return options, other, nil
}

// delivered returns the figures that came with the runs that make a report.
func (f *Found) delivered() (list []*report.Summary) {
	for _, run := range f.Reported() {
		d := &report.DeliveredFigures{}
		isKnown := run.Finish != nil && json.Unmarshal(run.Finish.Summary, d) == nil
		if isKnown {
			list = append(list, d.Summary())
		}
	}
	return list
}

// Line returns the figures of the job, as rt-job compare has them: those so far if it is running.
func (f *Found) Line(prices report.Prices) (runs.Line, error) {
	own := f.delivered()
	for i := range f.Jobs {
		for k := 0; k < len(f.Jobs[i].Live) && f.Jobs[i].IsRunning(); k++ {
			own = append(own, f.Jobs[i].Live[k].Summary())
		}
	}
	if len(own) == 0 {
		return runs.Line{}, fmt.Errorf("%w: no figures of job %s have arrived", site.ErrNoReport, f.Job)
	}
	report.Together(own)
	jobs := report.Jobs(own)
	return runs.LineOf(jobs[len(jobs)-1], prices), nil
}

// summariesOf returns what came with the finish of runs.
func summariesOf(stored []site.StoredRun) (list []json.RawMessage) {
	for _, run := range stored {
		if run.Finish != nil && json.Valid(run.Finish.Summary) {
			list = append(list, run.Finish.Summary)
		}
	}
	return list
}
