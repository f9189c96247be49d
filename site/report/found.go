package report

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
	"github.com/resource-tracker/rt/spool"
)

const (
	mostEarlier = 100 // runs for the advice
	batchRuns   = 50
)

// Jobs finds jobs for their readers, and makes their reports.
type Jobs struct {
	Registry *registry.Registry
	// Write writes a report, as Maker.Write; nil: there are none.
	Write func(ctx context.Context, w io.Writer, r site.Report) error
	Fault func(error) // receives errors that do not concern the reader
}

// Query names a job.
type Query struct {
	Job        string         // its name in Slurm: "12", "12_3", "12+1"
	Cluster    rt.Opt[string] // absent: the cluster of the newest job with the name
	Generation int64          // 0: the newest job with the name
	Member     uint64         // id that has this generation: of a task, for an array without a row of its own id; 0: that in Job
}

// Found is a job with its runs, all tasks of an array, or all components of a heterogeneous job.
type Found struct {
	Query
	ID        uint64 // the number in the name
	Jobs      []site.JobRow
	Runs      []site.StoredRun
	IsPartial bool // there are more than a report has
}

// Find returns a job that a reader may see, and asks the nodes for the readings of its runs. The error is
// site.ErrNotFound if there is none.
func (s *Jobs) Find(ctx context.Context, reader site.Reader, q Query) (*Found, error) {
	id, isNumber := spool.JobNumber(q.Job).Get()
	if !isNumber || id > site.MaxID {
		return nil, fmt.Errorf("job %s: %w", q.Job, site.ErrNotFound)
	}
	f := &Found{Query: q, ID: id}
	rows, err := s.rowsWithID(ctx, reader, f, site.MaxReportRuns)
	if err != nil {
		return nil, err
	}
	f.Jobs = oneJob(rows, f)
	if err := s.addRuns(ctx, reader, f); err != nil {
		return nil, err
	}
	f.selectComponent()
	if len(f.Runs) == 0 && !f.HasLive() {
		return nil, fmt.Errorf("job %s: %w", q.Job, site.ErrNotFound)
	}
	for _, j := range f.Jobs {
		if err := s.Registry.Live.Want(ctx, j, time.Now()); err != nil {
			s.Fault(err)
		}
	}
	return f, nil
}

// Tasks returns the rows of the job, at most most of them, also if they are more than a report has. isCut is set if there
// are more.
func (s *Jobs) Tasks(ctx context.Context, reader site.Reader, f *Found, most int) (rows []site.JobRow, isCut bool, err error) {
	if len(f.Jobs) < site.MaxReportRuns {
		return f.Jobs, false, nil
	}
	all := *f
	all.IsPartial = false
	rows, err = s.rowsWithID(ctx, reader, &all, most)
	return oneJob(rows, &all), all.IsPartial, err
}

// HasLive reports whether nodes have runs of the job that they have not delivered yet.
func (f *Found) HasLive() bool {
	return slices.ContainsFunc(f.Jobs, func(j site.JobRow) bool { return len(j.Live) > 0 })
}

// rowsWithID returns the rows of the jobs with the id, and of arrays and heterogeneous jobs with it, the newest first.
// For the name of a task it returns the rows of this task.
func (s *Jobs) rowsWithID(ctx context.Context, reader site.Reader, f *Found, most int) (rows []site.JobRow, err error) {
	filter := site.Filter{Cluster: f.Cluster.Or(""), JobID: rt.Some(f.ID), Access: reader.Access()}
	all := site.AllPages(func(cursor string) ([]site.JobRow, string, error) {
		return s.Registry.Jobs.List(ctx, filter, cursor, site.MaxReportRuns)
	})
	isTask := strings.ContainsRune(f.Job, '_')
	for j, err := range all {
		if err != nil {
			return nil, err
		}
		if !f.Cluster.Valid() {
			f.Cluster.Set(j.Cluster)
		}
		isOtherTask := isTask && j.Label != f.Job
		switch {
		case isOtherTask, j.Cluster != f.Cluster.Or(""):
			continue
		case len(rows) == most:
			f.IsPartial = true
			return rows, nil
		}
		rows = append(rows, j)
	}
	return rows, nil
}

// oneJob returns the rows of one job, with the tasks of its array. Slurm uses ids again, and a
// reader of all jobs sees each job that has had the id. The job has the row of the generation, or
// else is the newest one. rows are sorted, the newest first.
func oneJob(rows []site.JobRow, f *Found) []site.JobRow {
	var jobs [][]site.JobRow
	for _, row := range rows {
		k := slices.IndexFunc(jobs, func(job []site.JobRow) bool { return isOfOneJob(job, &row) })
		if k < 0 {
			jobs = append(jobs, nil)
			k = len(jobs) - 1
		}
		jobs[k] = append(jobs[k], row)
	}
	for _, job := range jobs {
		isWanted := func(row site.JobRow) bool {
			isNamed := row.JobID == f.ID || row.Label == f.Job
			if f.Member != 0 {
				isNamed = row.JobID == f.Member
			}
			return isNamed && row.Generation == f.Generation
		}
		if f.Generation == 0 || slices.ContainsFunc(job, isWanted) {
			return job
		}
	}
	return nil
}

// isOfOneJob reports whether an older row can be of the same array or heterogeneous job as others.
// Such a row has the same user, an id of its own, and a time not far from the others.
func isOfOneJob(job []site.JobRow, row *site.JobRow) bool {
	first := &job[len(job)-1]
	isFar := !row.End.IsZero() && first.Start.Sub(row.End) > rt.SameJob
	hasID := slices.ContainsFunc(job, func(other site.JobRow) bool { return other.JobID == row.JobID })
	isSameUser := first.User == row.User || first.User == "" || row.User == ""
	return isSameUser && !isFar && !hasID
}

// addRuns adds the runs of the jobs, as many as a report has.
func (s *Jobs) addRuns(ctx context.Context, reader site.Reader, f *Found) error {
	for _, j := range f.Jobs {
		all := site.AllPages(func(cursor string) ([]site.StoredRun, string, error) {
			return s.Registry.Visible.OfJob(ctx, j, reader.Access(), cursor, batchRuns)
		})
		for run, err := range all {
			if err != nil {
				return err
			}
			if len(f.Runs) == site.MaxReportRuns {
				f.IsPartial = true
				return nil
			}
			f.Runs = append(f.Runs, run)
		}
	}
	return nil
}

// selectComponent leaves the job and the runs of the component that is named. Only the runs know it.
func (f *Found) selectComponent() {
	if !strings.ContainsRune(f.Job, '+') {
		return
	}
	ids := map[rt.Opt[uint64]]bool{}
	f.Runs = slices.DeleteFunc(f.Runs, func(run site.StoredRun) bool {
		isNamed := run.Record != nil && spool.Matches(run.Record, f.Job)
		if isNamed {
			ids[run.Record.JobID] = true
		}
		return !isNamed
	})
	f.Jobs = slices.DeleteFunc(f.Jobs, func(j site.JobRow) bool {
		isLive := slices.ContainsFunc(j.Live, func(l site.LiveRun) bool { return spool.Matches(&l.Summary().Run, f.Job) })
		return !isLive && !ids[rt.Some(j.JobID)]
	})
}

// Reported returns the runs that make a report: runs of whole jobs with a record, or else of steps.
// Runs that a user has delivered count only if no node has any.
func (f *Found) Reported() (list []site.StoredRun) {
	isWhole := func(r site.StoredRun) bool { return r.Record != nil && r.Record.Step == "" }
	isOfNode := func(r site.StoredRun) bool { return r.Record != nil && !site.IsOwnerOfUser(r.Owner) }
	onlyWhole, onlyNodes := slices.ContainsFunc(f.Runs, isWhole), slices.ContainsFunc(f.Runs, isOfNode)
	list = bestCopies(slices.DeleteFunc(slices.Clone(f.Runs), func(run site.StoredRun) bool {
		isPart, isOfUser := onlyWhole && !isWhole(run), onlyNodes && !isOfNode(run)
		return isPart || isOfUser
	}))
	list = slices.DeleteFunc(list, func(run site.StoredRun) bool { return run.Held.RecordBytes == 0 })
	slices.SortStableFunc(list, func(a, b site.StoredRun) int {
		return cmp.Or(cmp.Compare(a.Record.ArrayTaskID.Or(0), b.Record.ArrayTaskID.Or(0)), cmp.Compare(a.Record.HetJobOffset.Or(0), b.Record.HetJobOffset.Or(0)),
			cmp.Compare(a.Record.Attempt, b.Record.Attempt), cmp.Compare(a.Record.Node, b.Record.Node))
	})
	return list
}

// bestCopies returns the best registration of each run with a record. Two owners' runs are
// different runs.
func bestCopies(runs []site.StoredRun) (list []site.StoredRun) {
	at := map[string]int{}
	for _, run := range runs {
		if run.Record == nil {
			continue
		}
		name := run.Owner + "/" + run.Record.FileStem()
		k, isThere := at[name]
		switch {
		case !isThere:
			at[name] = len(list)
			list = append(list, run)
		case run.Copy().Better(list[k].Copy()):
			list[k] = run
		}
	}
	return list
}

// Report writes the report of a job in a form. Its errors of the kinds
// site.ErrNoReport and site.ErrBusy are for the reader.
func (s *Jobs) Report(ctx context.Context, w io.Writer, reader site.Reader, f *Found, form string) error {
	r := site.Report{Form: form, Name: f.Job, Reader: reader.Name, Runs: f.Reported()}
	switch {
	case s.Write == nil:
		return fmt.Errorf("%w: this service makes none", site.ErrNoReport)
	case f.IsPartial:
		return fmt.Errorf("%w: the job has more than %d runs; rt-spool report has no such limit, and with --array it summarizes the tasks of an array", site.ErrNoReport, site.MaxReportRuns)
	case len(r.Runs) == 0 && f.HasLive():
		return fmt.Errorf("%w yet: the job has run since %s, and its readings arrive within 2 minutes", site.ErrNoReport, f.Jobs[0].Start.UTC().Format("2006-01-02 15:04 UTC"))
	case len(r.Runs) == 0:
		return fmt.Errorf("%w: no complete record of the job has arrived", site.ErrNoReport)
	}
	if !reader.IsShare() { // a share shows one job
		var err error
		r.Earlier, err = s.earlier(ctx, reader, f.Cluster.Or(""), r.Runs[0].Record)
		if err != nil {
			return err
		}
	}
	return s.Write(ctx, w, r)
}

// earlier returns runs of the same user and the same name before a run.
func (s *Jobs) earlier(ctx context.Context, reader site.Reader, cluster string, first *rt.Run) (list []site.StoredRun, err error) {
	isNamed := first.User != "" && first.Meta.JobName != ""
	if !isNamed {
		return nil, nil
	}
	filter := site.Filter{Cluster: cluster, Users: []string{first.User}, Name: first.Meta.JobName, Until: first.Start, Access: reader.Access()}
	jobs, _, err := s.Registry.Jobs.List(ctx, filter, "", batchRuns)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		runs, _, err := s.Registry.Visible.OfJob(ctx, j, reader.Access(), "", batchRuns)
		if err != nil {
			return nil, err
		}
		for _, run := range bestCopies(runs) {
			isSample := run.Finish != nil && run.Record.Meta.JobName == first.Meta.JobName && run.Record.Step == ""
			if isSample {
				list = append(list, run)
			}
		}
		if len(list) >= mostEarlier {
			break
		}
	}
	return list, nil
}
