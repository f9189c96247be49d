package client

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
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/spool"
)

// FoundRun is a run as a list of the site describes it. Of rt.Run it has the identity, the user,
// the account, the partition, the job name and the ending.
type FoundRun struct {
	rt.Run
	At ListedRun
	owner
	// Others are further registrations of the same run, the better ones first.
	Others []ListedRun
}

// Name names the run for messages: its job, node and attempt.
func (r *FoundRun) Name() string {
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
func runsOf(j *ListedJob) []FoundRun {
	out := make([]FoundRun, len(j.Runs))
	for i, at := range j.Runs {
		r := &out[i]
		r.At, r.owner = at, owner{at.FromUser, j.Generation}
		r.Identity = rt.Identity{
			Cluster: j.Cluster, JobID: j.JobID, ArrayJobID: j.ArrayJobID, ArrayTaskID: j.ArrayTaskID, HetJobID: j.HetJobID, HetJobOffset: j.HetJobOffset,
			Step: at.Step, Node: at.Node, Attempt: at.Attempt.Or(0), Start: at.Start,
		}
		r.User, r.Account, r.Partition, r.Meta.JobName = j.User, j.Account, j.Partition, j.JobName
		r.State, r.Outcome, r.End = at.State, at.Outcome, at.End
	}
	return out
}

// Find returns the runs at the site that a JOB argument names, the oldest first. It returns none
// for an argument that is no job of a scheduler. Of a run without an id the site has only the figures so far.
func (c *Client) Find(ctx context.Context, job string) ([]FoundRun, error) {
	id := spool.JobNumber(job)
	if !id.Valid() {
		return nil, nil
	}
	var out []FoundRun
	for j, err := range c.Jobs(ctx, Query{JobID: id}) {
		if err != nil {
			return nil, err
		}
		for _, r := range withLive(j, runsOf(j)) {
			if spool.Matches(&r.Run, job) {
				out = append(out, r)
			}
		}
	}
	return distinct(out), nil
}

// distinct sorts runs, the oldest first, and joins copies of one run. A run is registered twice if
// its node forgets the first registration, and a job can be in two pages of a list. The copy of
// another owner replaces none.
func distinct(runs []FoundRun) (out []FoundRun) {
	slices.SortStableFunc(runs, func(a, b FoundRun) int {
		byName := cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.FileStem(), b.FileStem()), strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.User, b.User))
		return cmp.Or(byName, a.owner.compare(b.owner), compareCopies(&a.At, &b.At))
	})
	for i := range runs {
		r := &runs[i]
		last := len(out) - 1
		isSame := last >= 0 && out[last].Cluster == r.Cluster && out[last].FileStem() == r.FileStem() && out[last].User == r.User
		switch {
		case !isSame:
			out = append(out, *r)
		case out[last].owner == r.owner:
			out[last].Others = append(out[last].Others, r.At)
		}
	}
	return out
}

// owner distinguishes the owners of copies with the same name: no two owners of nodes share a job.
type owner struct {
	isUser     bool
	generation int64 // of the job
}

// compare is negative if the copy of o is used: a node's copy before a user's copy, then the first
// owner's copy.
func (o owner) compare(other owner) int {
	if o.isUser != other.isUser {
		if o.isUser {
			return 1
		}
		return -1
	}
	return cmp.Compare(o.generation, other.generation)
}

// compareCopies is negative if a is the better registration of a run than b.
func compareCopies(a, b *ListedRun) int {
	switch {
	case copyOf(a).Better(copyOf(b)):
		return -1
	case copyOf(b).Better(copyOf(a)):
		return 1
	}
	return 0 // the same one
}

// copyOf returns what decides between the registrations of a run. Their readings are not compared: not every part of a
// site knows them.
func copyOf(at *ListedRun) *rt.Copy {
	return &rt.Copy{State: at.State, HasRecord: at.HasRecord, IsAtSite: true, Place: at.ID}
}

// slack covers the time between the start of a job, which a list shows, and the start of its runs,
// which the site compares.
const slack = time.Hour

// Figures returns the best copy of each run of a query, and of jobs shortly before and after its times, with its figures.
func (c *Client) Figures(ctx context.Context, q Query) (out []runs.Copy, err error) {
	at := map[string]int{}
	var owners []owner // of out
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
		for _, r := range withLive(j, distinct(runsOf(j))) {
			one := r.copy()
			name := r.Cluster + "/" + r.User + "/" + r.FileStem()
			k, isThere := at[name] // the job was in the page before, or is of another owner
			if !isThere {
				at[name] = len(out)
				out, owners = append(out, one), append(owners, r.owner)
				continue
			}
			byOwner := r.owner.compare(owners[k])
			isBetter := byOwner < 0
			if byOwner == 0 {
				isBetter = one.Better(&out[k].Copy)
			}
			if isBetter {
				out[k], owners[k] = one, r.owner
			}
		}
	}
	return out, nil
}

// withLive adds the figures so far of the live runs of a job to its runs, and the live runs that have not arrived. Of
// a run that has ended at the site the site has better ones.
func withLive(j *ListedJob, runs []FoundRun) []FoundRun {
	for _, text := range j.Live {
		var f report.RunFigures
		if json.Unmarshal(text, &f) != nil {
			continue
		}
		live := FoundRun{Run: f.Summary().Run, owner: owner{false, j.Generation}}
		k := slices.IndexFunc(runs, func(r FoundRun) bool { return r.FileStem() == live.FileStem() })
		switch {
		case k < 0:
			live.At = ListedRun{State: live.State, Summary: text}
			runs = append(runs, live)
		case runs[k].State == rt.StateRunning:
			runs[k].At.Summary = text
		}
	}
	return runs
}

// copy returns the copy of the run at the site with its figures.
func (r *FoundRun) copy() runs.Copy {
	d, isDelivered := r.figures()
	s := d.RunFigures.Summary() // it does not keep the sample of d in memory
	one := runs.Copy{Copy: *copyOf(&r.At), Summary: s}
	if isDelivered {
		one.LastReading, one.Readings = s.Record.Last, int64(s.Record.Readings)
	}
	return one
}

// Users returns the users of a query and their names in the figures of its answer. A site can have
// runs under the pseudonyms of these users.
func Users(q Query, copies []runs.Copy) []string {
	users := slices.Clone(q.Users)
	if !q.SelectsUsers() {
		return users
	}
	for _, f := range copies {
		if f.Run.User != "" {
			users = append(users, f.Run.User)
		}
	}
	slices.Sort(users)
	return slices.Compact(users)
}

// figures returns the figures that came with the run, and true. A run that has not ended has none,
// and figures of another run are not used. Then the figures come from the list.
func (r *FoundRun) figures() (d *report.DeliveredFigures, isDelivered bool) {
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

// Earlier returns the newest runs of the user's jobs of the same names. They have what the advice
// about jobs needs.
func (c *Client) Earlier(ctx context.Context, jobs []*report.JobSummary) (out []*report.Summary, err error) {
	type query struct{ cluster, user, name string }
	asked := map[query]bool{}
	for _, j := range jobs {
		q := query{j.Cluster, j.User, j.Name}
		if asked[q] || j.Name == "" || j.User == "" {
			continue
		}
		asked[q] = true
		found, err := c.earlierOf(ctx, Query{Cluster: q.cluster, Users: []string{q.user}, Name: q.name, Until: until(jobs, j)})
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// until returns when the last job of the name of j started. It is zero if tasks of an array that
// started later are in the sample too.
func until(jobs []*report.JobSummary, j *report.JobSummary) (last time.Time) {
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

func (c *Client) earlierOf(ctx context.Context, q Query) (out []*report.Summary, err error) {
	for j, err := range c.Jobs(ctx, q) {
		if err != nil {
			return nil, err
		}
		if j.JobName != q.Name {
			continue // the site compares a part of the name
		}
		for _, r := range distinct(runsOf(j)) {
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
