package report

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// The limits of the recent jobs.
const (
	recent      = 30 * 24 * time.Hour
	mostRows    = 2000 // jobs of a list
	mostRecent  = 300  // jobs whose runs are read
	tasksRecent = 30   // of them of one array
)

// Recent returns the newest jobs of a user that have ended and that a reader may see, sorted from the oldest. They have what
// the advice about later jobs needs.
func (s *Jobs) Recent(ctx context.Context, reader site.Reader, user string, now time.Time) ([]*report.JobSummary, error) {
	filter := site.Filter{Users: []string{user}, Since: now.Add(-recent), Access: reader.Access()}
	all := site.AllPages(func(cursor string) ([]site.JobRow, string, error) {
		return s.Registry.Jobs.List(ctx, filter, cursor, mostRecent)
	})
	var sample []*report.Summary
	rows, jobs, tasks := 0, 0, map[string]int{}
	for row, err := range all {
		if err != nil {
			return nil, err
		}
		rows++
		if rows > mostRows || jobs == mostRecent {
			break
		}
		array, _, _ := strings.Cut(row.Label, "_")
		tasks[row.Cluster+"/"+array]++
		isOneTooMany := tasks[row.Cluster+"/"+array] > tasksRecent
		if isOneTooMany || row.State == rt.StateRunning {
			continue
		}
		jobs++
		runs, _, err := s.Registry.Visible.OfJob(ctx, row, reader.Access(), "", batchRuns)
		if err != nil {
			return nil, err
		}
		sample = append(sample, delivered(runs)...)
	}
	slices.SortStableFunc(sample, func(a, b *report.Summary) int { return a.Run.Start.Compare(b.Run.Start) })
	list := report.Jobs(sample)
	slices.SortStableFunc(list, func(a, b *report.JobSummary) int { return a.Start.Compare(b.Start) })
	return list, nil
}

// delivered returns the figures that nodes have delivered of the runs of whole jobs.
func delivered(runs []site.StoredRun) (list []*report.Summary) {
	for _, run := range bestCopies(runs) {
		d := &report.DeliveredFigures{}
		isUsable := run.Finish != nil && run.Record.Step == "" && !site.IsOwnerOfUser(run.Owner)
		if isUsable && json.Unmarshal(run.Finish.Summary, d) == nil {
			list = append(list, d.Summary())
		}
	}
	return list
}
