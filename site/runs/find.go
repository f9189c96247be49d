// Package runs gets runs from a site service: as spool files, from the complete records, and as
// figures for lists.
package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site/client"
	"github.com/resource-tracker/rt/spool"
)

// Run is a run as a list of the site describes it: of rt.Run it has the identity, the user, the
// account, the partition, the job name and the ending.
type Run struct {
	rt.Run
	At client.Run
	// Others are further registrations of the same run, the better ones first.
	Others []client.Run
}

// Name names the run for messages: its job, node and attempt.
func (r *Run) Name() string {
	text := "the run of job " + printable.Text(r.Label())
	if r.Node != "" {
		text += " on node " + printable.Text(r.Node)
	}
	if r.Attempt > 0 {
		text += ", attempt " + strconv.FormatUint(r.Attempt, 10)
	}
	return text
}

// runsOf returns the runs of a job.
func runsOf(j *client.Job) []Run {
	out := make([]Run, len(j.Runs))
	for i, at := range j.Runs {
		r := &out[i]
		r.At = at
		r.Identity = rt.Identity{
			Cluster: j.Cluster, JobID: j.JobID, ArrayJobID: j.ArrayJobID, ArrayTaskID: j.ArrayTaskID, HetJobID: j.HetJobID, HetJobOffset: j.HetJobOffset,
			Step: at.Step, Node: at.Node, Attempt: at.Attempt.Or(0), Start: at.Start,
		}
		r.User, r.Account, r.Partition, r.Meta.JobName = j.User, j.Account, j.Partition, j.JobName
		r.State, r.Outcome, r.End = at.State, at.Outcome, at.End
	}
	return out
}

// jobID returns the number by which a site finds the runs of a JOB argument.
func jobID(job string) (id rt.Opt[uint64]) {
	job = strings.TrimPrefix(job, "job-") // the name of a run
	end := strings.IndexFunc(job, func(c rune) bool { return c < '0' || c > '9' })
	if end < 0 {
		end = len(job)
	}
	if n, err := strconv.ParseUint(job[:end], 10, 64); err == nil {
		id.Set(n)
	}
	return id
}

// Find returns the runs at the site that a JOB argument names, the oldest first; none for an argument
// that is no job of a scheduler.
func Find(ctx context.Context, c *client.Client, job string) ([]Run, error) {
	id := jobID(job)
	if !id.Valid() {
		return nil, nil
	}
	var out []Run
	for j, err := range c.Jobs(ctx, client.Query{JobID: id}) {
		if err != nil {
			return nil, err
		}
		for _, r := range runsOf(j) {
			if spool.Matches(&r.Run, job) {
				out = append(out, r)
			}
		}
	}
	return distinct(out), nil
}

// distinct sorts runs, the oldest first, and joins those that are the same run. A run is registered twice
// if its node forgets the first registration, and a job can be in two pages of a list.
func distinct(runs []Run) (out []Run) {
	slices.SortStableFunc(runs, func(a, b Run) int {
		return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.FileStem(), b.FileStem()), strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.User, b.User), compareAt(&a.At, &b.At))
	})
	for i := range runs {
		r := &runs[i]
		last := len(out) - 1
		isSame := last >= 0 && out[last].Cluster == r.Cluster && out[last].FileStem() == r.FileStem() && out[last].User == r.User
		if !isSame {
			out = append(out, *r)
			continue
		}
		out[last].Others = append(out[last].Others, r.At)
	}
	return out
}

// compareAt is negative if a is the better registration of a run than b: the one with a record, or else
// the one that has ended, or else the newer one.
func compareAt(a, b *client.Run) int {
	rank := func(is bool) int {
		if is {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(rank(a.HasRecord), rank(b.HasRecord)),
		cmp.Compare(rank(a.State != rt.StateRunning), rank(b.State != rt.StateRunning)),
		strings.Compare(b.ID, a.ID),
	)
}

// slack covers the time between the start of a job, which a list shows, and that of its runs, which the
// site compares.
const slack = time.Hour

// Figures returns the figures of the runs of a query, and of jobs shortly before and after its times.
func Figures(ctx context.Context, c *client.Client, q client.Query) (out []*report.RunFigures, err error) {
	if !q.Since.IsZero() {
		q.Since = q.Since.Add(-slack)
	}
	if !q.Until.IsZero() {
		q.Until = q.Until.Add(slack)
	}
	for j, err := range c.Jobs(ctx, q) {
		if err != nil {
			return nil, err
		}
		for _, r := range runsOf(j) {
			d, _ := r.figures()
			figures := d.RunFigures // a copy: a pointer into d keeps its sample in memory
			out = append(out, &figures)
		}
	}
	return out, nil
}

// Users returns the users of a query and the names under which the figures of its answer have them: a site can
// have runs under the pseudonyms of these users.
func Users(q client.Query, figures []*report.RunFigures) []string {
	users := slices.Clone(q.Users)
	if !q.SelectsUsers() {
		return users
	}
	for _, f := range figures {
		if f.Run.User != "" {
			users = append(users, f.Run.User)
		}
	}
	slices.Sort(users)
	return slices.Compact(users)
}

// figures returns the figures that came with the run, and true. A run that has not ended has none, and
// those that are of another run are not used: then the figures are what the list says.
func (r *Run) figures() (d *report.DeliveredFigures, isDelivered bool) {
	d = &report.DeliveredFigures{}
	err := json.Unmarshal(r.At.Summary, d)
	s := d.RunFigures.Summary()
	isUser := s.Run.User == "" || s.Run.User == r.User
	if err == nil && isUser && s.Run.FileStem() == r.FileStem() {
		return d, true
	}
	d = &report.DeliveredFigures{RunFigures: *(&report.Summary{Run: r.Run, Label: r.Label()}).Figures()}
	d.Record.Last = r.End
	return d, false
}

// maxEarlier is the number of earlier runs of one job that are used: those that a report of a spool
// directory reads.
const maxEarlier = 200

// Earlier returns the runs of the user's jobs of the same names, for the advice about jobs: of each
// name the newest, with what the advice takes from them.
func Earlier(ctx context.Context, c *client.Client, jobs []*report.Job) (out []*report.Summary, err error) {
	type query struct{ cluster, user, name string }
	asked := map[query]bool{}
	for _, j := range jobs {
		q := query{j.Cluster, j.User, j.Name}
		if asked[q] || j.Name == "" || j.User == "" {
			continue
		}
		asked[q] = true
		found, err := earlierOf(ctx, c, client.Query{Cluster: q.cluster, Users: []string{q.user}, Name: q.name, Until: until(jobs, j)})
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// until returns when the last job of the name of j has started; zero if tasks of an array that started
// later are in the sample too.
func until(jobs []*report.Job, j *report.Job) (last time.Time) {
	for _, other := range jobs {
		if other.Name != j.Name {
			continue
		}
		if other.Runs[0].Run.ArrayJobID.Valid() {
			return time.Time{}
		}
		if other.Start.After(last) {
			last = other.Start
		}
	}
	return last.Add(time.Minute) // a tracker starts after its job
}

func earlierOf(ctx context.Context, c *client.Client, q client.Query) (out []*report.Summary, err error) {
	for j, err := range c.Jobs(ctx, q) {
		if err != nil {
			return nil, err
		}
		if j.JobName != q.Name {
			continue // the site compares a part of the name
		}
		for _, r := range runsOf(j) {
			if d, isDelivered := r.figures(); isDelivered {
				out = append(out, d.Summary())
			}
		}
		if len(out) >= maxEarlier {
			break
		}
	}
	return out, nil
}
