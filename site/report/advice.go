package report

import (
	"context"
	"encoding/json"

	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// Advice returns the options to request next time for a job like this one, and what else to change or why there are
// none. It reads the figures that came with the runs, not their records, and is empty without any.
func (s *Jobs) Advice(ctx context.Context, reader site.Reader, job site.JobRow) (options, other string, err error) {
	runs, _, err := s.Registry.Visible.OfJob(ctx, job, reader.Access(), "", batchRuns)
	if err != nil {
		return "", "", err
	}
	f := Found{Runs: runs}
	var own []*report.Summary
	for _, run := range f.Reported() {
		d := &report.DeliveredFigures{}
		isKnown := run.Finish != nil && json.Unmarshal(run.Finish.Summary, d) == nil
		if isKnown {
			own = append(own, d.Summary())
		}
	}
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

// summariesOf returns what came with the finish of runs.
func summariesOf(runs []site.StoredRun) (list []json.RawMessage) {
	for _, run := range runs {
		if run.Finish != nil && json.Valid(run.Finish.Summary) {
			list = append(list, run.Finish.Summary)
		}
	}
	return list
}
