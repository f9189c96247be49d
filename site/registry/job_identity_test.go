package registry

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// Slurm uses the id of a job again. Each job has its own row, with its own runs, for each reader
// and in each order of delivery.
func TestReusedJobIDs(t *testing.T) {
	const year = 365 * 24
	records := []rt.Run{job(9, 0), job(9, 0), job(9, 1000), job(9, year), job(9, year+1), job(9, 2*year)}
	records[1].Node = "n2"
	records[2].Attempt, records[2].Outcome = 1, rt.OutcomeFailed // held for 41 days
	records[3].User, records[3].Account, records[3].Outcome = "bob", "chemistry", rt.OutcomeOOM
	records[4].User, records[4].Account, records[4].Node = "bob", "chemistry", "n2"
	const first, second, third = "alice 0h-1002h failed 3", "bob 8760h-8763h oom 2", "alice 17520h-17522h finished 1"
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		list := func(f site.Filter) string {
			t.Helper()
			jobs, _, err := r.Jobs.List(t.Context(), f, "", 10)
			is(t, "Jobs", err, nil)
			var out []string
			for _, j := range jobs {
				out = append(out, fmt.Sprintf("%s %.0fh-%.0fh %s %d", j.User, j.Start.Sub(start).Hours(), j.End.Sub(start).Hours(), j.Outcome, len(jobRuns(t, r, j, f.Access))))
			}
			return strings.Join(out, ", ")
		}
		var ids []string
		for round, order := range [][]int{{0, 1, 2, 3, 4, 5}, {4, 0, 5, 2, 3, 1}} {
			ids = make([]string, len(records))
			for _, n := range order {
				ids[n] = putRun(t, r, 10*round+n, records[n]).ID
			}
			alice, bob := &site.Access{Users: []string{"alice"}}, &site.Access{Accounts: []string{"chemistry"}}
			for _, c := range []struct {
				filter site.Filter
				want   string
			}{
				{site.Filter{}, third + ", " + second + ", " + first},
				{site.Filter{JobID: rt.Some[uint64](9)}, third + ", " + second + ", " + first},
				{site.Filter{Users: []string{"alice"}}, third + ", " + first},
				{site.Filter{JobID: rt.Some[uint64](9), Access: alice}, third + ", " + first},
				{site.Filter{Access: bob}, second},
				{site.Filter{Since: start.Add(year * time.Hour)}, third + ", " + second},
				{site.Filter{Until: start.Add(time.Hour)}, first},
				{site.Filter{Node: "n2"}, second + ", " + first},
			} {
				same(t, fmt.Sprintf("order %v, %+v", order, c.filter), list(c.filter), c.want)
			}
			if round > 0 {
				break
			}
			for _, id := range ids {
				is(t, "RemoveRun", r.Removals.RemoveRun(t.Context(), id), nil)
			}
			same(t, "no run is left", list(site.Filter{}), "")
		}
		is(t, "RemoveRun", r.Removals.RemoveRun(t.Context(), ids[3]), nil)
		same(t, "a run is removed", list(site.Filter{}), third+", bob 8761h-8763h finished 1, "+first)
		_, n, err := r.Removals.ExpireRuns(t.Context(), time.Now(), 3)
		is(t, "ExpireRuns", err, nil)
		same(t, "removed runs", n, 3)
		same(t, "the others", list(site.Filter{}), third+", bob 8761h-8763h finished 1")
		problems, err := r.Check(t.Context())
		is(t, "Check", err, nil)
		same(t, "problems", problems, []string{})
	})
}

// Nodes that deliver at the same time neither split a job nor join two users' jobs.
func TestReusedJobIDAtTheSameTime(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		var nodes sync.WaitGroup
		for n := range 24 {
			run := newRun(t, r, n)
			nodes.Go(func() {
				record := job(9, 0)
				record.Node, record.User = fmt.Sprint("n", n), []string{"alice", "bob"}[n%2]
				o := site.Object{RunID: run.ID, Name: site.RecordName, Class: site.ClassRecord, Bytes: 1, SHA256: "r", Created: run.Created}
				if _, err := r.Runs.PutObject(t.Context(), o, []byte("r"), &record); err != nil {
					t.Error(err)
				}
			})
		}
		nodes.Wait()
		jobs, _, err := r.Jobs.List(t.Context(), site.Filter{}, "", 10)
		is(t, "Jobs", err, nil)
		same(t, "jobs", len(jobs), 2)
		for _, j := range jobs {
			same(t, "runs of "+j.User, len(jobRuns(t, r, j, &site.Access{Users: []string{j.User}})), 12)
		}
	})
}
