package report

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
)

// maxFiles limits the spool files that are made from the records of a report, in bytes.
const maxFiles = 1 << 30

// LoadedJob is a job with its runs, read from a directory that a Maker made.
type LoadedJob struct {
	Name, Form string
	Runs       []LoadedRun
	Jobs       []*report.JobSummary // with their advice
	Array      *report.Array        // if the runs are tasks of an array
	NoPlots    bool                 // it has too many runs
}

// LoadedRun is a run with its spool file.
type LoadedRun struct {
	Path    string // empty if the record cannot be read; Damage of the summary says why
	Summary *report.Summary
}

// Summaries returns the summaries of the runs.
func (j *LoadedJob) Summaries() (list []*report.Summary) {
	for _, r := range j.Runs {
		list = append(list, r.Summary)
	}
	return list
}

// Add adds figures of other packages to a summary.
type Add func(ctx context.Context, r *spool.Reader, s *report.Summary) error

// readManifest reads what a Maker has put into a directory.
func readManifest(dir string) (list manifest, err error) {
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		return list, err
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return list, fmt.Errorf("%s: %w", manifestName, err)
	}
	return list, nil
}

// Load reads the job in a directory that a Maker made. A record that cannot be read is left out of the figures of the
// job, and the summary of its run says why. If there is no other record, the error is site.ErrDamaged.
func Load(ctx context.Context, dir string, add Add) (*LoadedJob, error) {
	list, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	j := &LoadedJob{Name: list.Name, Form: list.Form, NoPlots: len(list.Records) > maxPlots}
	limits := &spool.ImportLimits{Runs: site.MaxReportRuns, Bytes: maxFiles}
	var summaries []*report.Summary
	var problems []error
	for _, file := range list.Records {
		r, err := file.load(ctx, dir, limits, add)
		if err != nil && !isUnreadable(err) {
			return nil, err
		}
		if err != nil {
			problems = append(problems, err)
			r = file.unread(err)
		} else {
			summaries = append(summaries, r.Summary)
		}
		j.Runs = append(j.Runs, r)
	}
	if len(summaries) == 0 {
		return nil, fmt.Errorf("%w: no record of job %s can be read: %w", site.ErrDamaged, j.Name, errors.Join(problems...))
	}
	report.Together(summaries)
	j.Jobs = report.Jobs(summaries)
	isArray := !slices.ContainsFunc(summaries, func(s *report.Summary) bool { return !s.Run.ArrayTaskID.Valid() })
	if isArray && len(j.Jobs) > 1 {
		oldest := slices.SortedStableFunc(slices.Values(summaries), func(a, b *report.Summary) int { return a.Run.Start.Compare(b.Run.Start) })
		j.Array = report.RollUp(j.Name, oldest)
	}
	isAdvised := j.Array == nil || j.Form == site.FormJobs // of the page of an array RollUp has the advice
	if isAdvised {
		j.advise(list.Earlier)
	}
	return j, nil
}

// advise makes the advice from the figures of earlier runs.
func (j *LoadedJob) advise(earlier []json.RawMessage) { adviseFrom(j.Jobs, j.Summaries(), earlier) }

// adviseFrom makes the advice for jobs from the figures of earlier runs. Those that cannot be read are left out.
func adviseFrom(jobs []*report.JobSummary, own []*report.Summary, earlier []json.RawMessage) {
	known := map[string]bool{}
	for _, s := range own {
		known[s.Run.FileStem()] = true
	}
	var sample []*report.Summary
	for _, text := range earlier {
		d := &report.DeliveredFigures{}
		err := json.Unmarshal(text, d)
		s := d.Summary()
		isNew := err == nil && !known[s.Run.FileStem()]
		if isNew {
			known[s.Run.FileStem()] = true
			sample = append(sample, s)
		}
	}
	all := slices.Concat(report.Jobs(sample), jobs)
	slices.SortStableFunc(all, func(a, b *report.JobSummary) int { return a.Start.Compare(b.Start) })
	for _, job := range jobs {
		job.Advise(all)
	}
}

// isUnreadable reports whether an error is about the content of one record, and not about the others.
func isUnreadable(err error) bool {
	return slices.ContainsFunc([]error{
		site.ErrDamaged, spool.ErrRecord, spool.ErrDamaged, spool.ErrLimit, spool.ErrForeign, spool.ErrNewer, spool.ErrOld, spool.ErrImport, spool.ErrExists,
	}, func(kind error) bool { return errors.Is(err, kind) })
}

// unread returns a run whose record cannot be read.
func (f *recordFile) unread(why error) LoadedRun {
	run := rt.Run{}
	if f.Run != nil {
		run = *f.Run
	}
	s := &report.Summary{Run: run, Label: run.Label(), Damage: "the run is left out of the figures of the job: " + why.Error()}
	return LoadedRun{Summary: s}
}

func (f *recordFile) load(ctx context.Context, dir string, limits *spool.ImportLimits, add Add) (run LoadedRun, err error) {
	if f.Problem != "" {
		return run, fmt.Errorf("%w: %s", site.ErrDamaged, f.Problem)
	}
	record, err := os.Open(filepath.Join(dir, f.Name))
	if err != nil {
		return run, err
	}
	defer record.Close()
	r, s, err := Decode(ctx, dir, limits, record, add)
	if err != nil {
		return run, err
	}
	isSilent := s.Run.State == rt.StateRunning && f.Run != nil // the registry may know that its node is dead
	if isSilent {
		s.Run.Ending = f.Run.Ending
	}
	if s.Run.State == rt.StateEnded {
		s.Run.State = rt.StateDelivered
	}
	return LoadedRun{r.Path(), s}, r.Close()
}

// Decode makes the spool file of a record in a directory, and the summary of the run. The caller closes the file.
func Decode(ctx context.Context, dir string, limits *spool.ImportLimits, record io.Reader, add Add) (r *spool.Reader, s *report.Summary, err error) {
	path, err := archive.Read(dir, limits, record)
	if err != nil {
		return nil, nil, fmt.Errorf("the record of a run: %w", err)
	}
	r, err = spool.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	events, err := r.Events()
	if err != nil {
		return nil, nil, err
	}
	var damage error
	s, err = report.Summarize(r.Run(), events, spool.Undamaged(r.Snapshots(ctx, 1, 0), func(err error) { damage = cmp.Or(damage, err) }))
	if err != nil {
		return nil, nil, errors.Join(err, damage)
	}
	if damage != nil {
		s.Damage = damage.Error()
		s.MarkAtLeast()
	}
	return r, s, add(ctx, r, s)
}
