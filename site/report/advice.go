package report

import (
	"context"
	"encoding/json"

	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// Advice says in one sentence what to change about a job, as rt-job does. It reads the figures that came with the runs,
// not their records, and is empty without any.
func (s *Jobs) Advice(ctx context.Context, reader site.Reader, job site.JobRow) (string, error) {
	runs, _, err := s.Registry.Visible.OfJob(ctx, job, reader.Access(), "", batchRuns)
	if err != nil {
		return "", err
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
		return "", nil
	}
	earlier, err := s.earlier(ctx, reader, job.Cluster, &own[0].Run)
	if err != nil {
		return "", err
	}
	report.Together(own)
	jobs := report.Jobs(own)
	adviseFrom(jobs, own, summariesOf(earlier))
	return jobs[len(jobs)-1].ShortAdvice(), nil
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
