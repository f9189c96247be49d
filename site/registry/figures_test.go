package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// finishWith ends a run with a summary in which 100 of so many core-seconds were used.
func finishWith(t *testing.T, r *Registry, id string, allocated int) {
	t.Helper()
	summary := fmt.Sprintf(`{"cpu":{"used_secs":100,"allocated_secs":%d,"cores_of":"allocation"}}`, allocated)
	_, err := r.Runs.Finish(t.Context(), id, site.Finish{RunStatus: "finished", DataSource: "inline", Summary: []byte(summary)}, nil, nil)
	is(t, "FinishRun", err, nil)
}

func figuresOf(t *testing.T, r *Registry, id uint64) string {
	t.Helper()
	jobs, _, err := r.Jobs.List(t.Context(), site.Filter{JobID: rt.Some(id)}, "", 10)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("job %d: %d jobs, %v", id, len(jobs), err)
	}
	if !jobs[0].CoreSecs.Valid() {
		return fmt.Sprintf("none, waste %t", jobs[0].Waste.Valid())
	}
	return fmt.Sprintf("%v of %v, waste %v, GPUs %t", jobs[0].CoreSecsUsed.Or(-1), jobs[0].CoreSecs.Or(-1), jobs[0].Waste.Or(-1), jobs[0].GPUSecs.Valid())
}

// The figures of a job are the sums over its nodes and attempts. The runs of its steps, and further
// registrations of a run, count no second time.
func TestFiguresOfJobs(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		first := putRun(t, r, 1, job(1, 0))
		same(t, "before the finish", figuresOf(t, r, 1), "none, waste false")
		finishWith(t, r, first.ID, 400)
		same(t, "one node", figuresOf(t, r, 1), "100 of 400, waste 300, GPUs false")
		other := job(1, 0)
		other.Node = "n2"
		second := putRun(t, r, 2, other)
		finishWith(t, r, second.ID, 200)
		same(t, "two nodes", figuresOf(t, r, 1), "200 of 600, waste 400, GPUs false")
		other.Attempt, other.Start = 1, other.Start.Add(time.Hour)
		third := putRun(t, r, 3, other)
		finishWith(t, r, third.ID, 1000)
		same(t, "two attempts", figuresOf(t, r, 1), "300 of 1600, waste 1300, GPUs false")
		other.Step = "0"
		step := putRun(t, r, 4, other)
		finishWith(t, r, step.ID, 5000)
		again := putRun(t, r, 5, job(1, 0))
		finishWith(t, r, again.ID, 400)
		same(t, "with a step and a second registration", figuresOf(t, r, 1), "300 of 1600, waste 1300, GPUs false")
		finishWith(t, r, second.ID, 300)
		same(t, "after a corrected finish", figuresOf(t, r, 1), "300 of 1700, waste 1400, GPUs false")
		is(t, "RemoveRun", r.Removals.RemoveRun(t.Context(), third.ID), nil)
		same(t, "after the removal of a run", figuresOf(t, r, 1), "200 of 700, waste 500, GPUs false")

		late := newRun(t, r, 6)
		finishWith(t, r, late.ID, 500)
		record := job(2, 1)
		put(t, r, site.Object{RunID: late.ID, Name: site.RecordName, Class: site.ClassRecord, Bytes: 1, SHA256: "r", Created: late.Created}, []byte("r"), &record)
		same(t, "a record after the finish", figuresOf(t, r, 2), "100 of 500, waste 400, GPUs false")
	})
}

// The list by waste has the jobs whose waste is known, in pages of any size.
func TestJobsByWaste(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		for i, allocated := range []int{200, 900, 500, 900, 100, 300} {
			record := job(uint64(i+1), i)
			if i%2 == 1 {
				record.User, record.Account, record.Node = "bob", "chemistry", "n2"
			}
			run := putRun(t, r, i, record)
			if i != 4 {
				finishWith(t, r, run.ID, allocated)
			}
		}
		r.Jobs.windows = windows{list: 4, other: 2}
		hour := func(n int) time.Time { return start.Add(time.Duration(n) * time.Hour) }
		for _, c := range []struct {
			name   string
			filter site.Filter
			want   []uint64
		}{
			{"all", site.Filter{}, []uint64{4, 2, 3, 6, 1}},
			{"user", site.Filter{Users: []string{"alice"}}, []uint64{3, 1}},
			{"reader", site.Filter{Access: &site.Access{Users: []string{"alice"}, Accounts: []string{"chemistry"}}}, []uint64{4, 2, 3, 6, 1}},
			{"reader of own jobs", site.Filter{Access: &site.Access{Users: []string{"alice"}}}, []uint64{3, 1}},
			{"until", site.Filter{Until: hour(3)}, []uint64{2, 3, 1}},
			{"since", site.Filter{Since: hour(5)}, []uint64{4, 6}},
			{"outcome", site.Filter{Outcome: "finished", State: rt.StateEnded, Partitions: []string{"batch"}}, []uint64{4, 2, 3, 6, 1}},
			{"node", site.Filter{Node: "n2"}, []uint64{4, 2, 6}},
			{"node and user", site.Filter{Node: "n2", Users: []string{"alice"}}, nil},
		} {
			c.filter.Sort = site.ByWaste
			for _, limit := range []int{1, 2, 100} {
				same(t, fmt.Sprintf("%s, pages of %d", c.name, limit), pages(t, r, c.filter, limit), c.want)
			}
		}
		same(t, "node, by start", pages(t, r, site.Filter{Node: "n2"}, 2), []uint64{6, 4, 2})
		_, _, err := r.Jobs.List(t.Context(), site.Filter{Sort: site.ByWaste}, "1.2.63", 10)
		is(t, "a cursor of the other order", err, site.ErrCursor)
	})
}

// The figures of a running job are not final: the list has them so far, and no sum has them. See docs/waste.md.
func TestTotalsOfRunningJobs(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		one, other, ended := running(1, "n1", 10), running(1, "n2", 20), running(2, "n1", 5)
		putLive(t, r, "n1", one)
		endLiveRun(t, r, 1, other, 35)
		endLiveRun(t, r, 2, ended, 40)
		check := func(what, want string) {
			t.Helper()
			for _, by := range []site.Group{site.ByUser, site.ByWeek} {
				totals, err := r.Jobs.Totals(t.Context(), site.Filter{}, by, 10)
				is(t, "Totals", err, nil)
				if len(totals) != 1 {
					t.Fatal(totals)
				}
				f := totals[0]
				same(t, what, fmt.Sprintf("%d jobs, %d known, %v of %v, waste %v", f.Jobs, f.Known, f.CoreSecsUsed.Or(-1), f.CoreSecs.Or(-1), f.WasteSecs.Or(-1)), want)
			}
		}
		check("one runs", "2 jobs, 1 known, 40 of 200, waste 160")
		jobs, _, err := r.Jobs.List(t.Context(), site.Filter{JobID: rt.Some[uint64](1)}, "", 1)
		is(t, "List", err, nil)
		same(t, "the waste so far", jobs[0].Waste, rt.Some[int64](165+90))
		endLiveRun(t, r, 3, one, 60)
		check("both have ended", "2 jobs, 2 known, 135 of 600, waste 465")
	})
}

// The totals are the sums over the jobs that the reader may see, by user, account and week.
func TestTotals(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		for i := range 6 {
			record := job(uint64(i+1), 48*i) // from Sunday, 2026-03-01, on
			record.User, record.Account = []string{"alice", "bob", ""}[i%3], []string{"physics", "chemistry"}[i%2]
			run := putRun(t, r, i, record)
			if i != 4 { // bob's second job has no figures
				finishWith(t, r, run.ID, 200+100*i)
			}
		}
		text := func(f site.Filter, by site.Group) (list []string) {
			totals, err := r.Jobs.Totals(t.Context(), f, by, 9)
			is(t, "Totals", err, nil)
			for _, total := range totals {
				name := total.Name
				if !total.Begin.IsZero() {
					name = total.Begin.Format(time.DateOnly) + name
				}
				list = append(list, fmt.Sprintf("%s: %d jobs, %d known, %v of %v, waste %v, GPUs %t", name, total.Jobs, total.Known, total.CoreSecsUsed.Or(-1), total.CoreSecs.Or(-1), total.WasteSecs.Or(-1), total.GPUSecs.Valid()))
			}
			return list
		}
		same(t, "users", text(site.Filter{}, site.ByUser), []string{
			": 2 jobs, 2 known, 200 of 1100, waste 900, GPUs false", "alice: 2 jobs, 2 known, 200 of 700, waste 500, GPUs false",
			"bob: 2 jobs, 1 known, 100 of 300, waste 200, GPUs false",
		})
		same(t, "accounts of a user", text(site.Filter{Users: []string{"alice"}}, site.ByAccount), []string{
			"chemistry: 1 jobs, 1 known, 100 of 500, waste 400, GPUs false", "physics: 1 jobs, 1 known, 100 of 200, waste 100, GPUs false",
		})
		same(t, "partitions", text(site.Filter{Accounts: []string{"physics"}}, site.ByPartition), []string{
			"batch: 3 jobs, 2 known, 200 of 600, waste 400, GPUs false",
		})
		same(t, "weeks", text(site.Filter{}, site.ByWeek), []string{
			"2026-03-09: 2 jobs, 1 known, 100 of 700, waste 600, GPUs false", "2026-03-02: 3 jobs, 3 known, 300 of 1200, waste 900, GPUs false",
			"2026-02-23: 1 jobs, 1 known, 100 of 200, waste 100, GPUs false",
		})
		same(t, "weeks and partitions", text(site.Filter{Users: []string{"bob"}}, site.ByWeekAndPartition), []string{
			"2026-03-09batch: 1 jobs, 0 known, -1 of -1, waste -1, GPUs false", "2026-03-02batch: 1 jobs, 1 known, 100 of 300, waste 200, GPUs false",
		})
		same(t, "an interval", text(site.Filter{Since: start.Add(47 * time.Hour), Until: start.Add(49 * time.Hour)}, site.ByUser), []string{
			"bob: 1 jobs, 1 known, 100 of 300, waste 200, GPUs false",
		})
		same(t, "a reader", text(site.Filter{Access: &site.Access{Users: []string{"alice", ""}}}, site.ByUser), []string{
			"alice: 2 jobs, 2 known, 200 of 700, waste 500, GPUs false",
		})
		for name, f := range map[string]site.Filter{
			"a partition": {Partitions: []string{"batch"}}, "a job": {JobID: rt.Some[uint64](2)}, "an outcome": {Outcome: "finished"}, "a state": {State: rt.StateEnded}, "a cluster": {Cluster: "c"}, "a name": {Name: "TRAI"},
		} {
			jobs, _, err := r.Jobs.List(t.Context(), f, "", 9)
			is(t, "List", err, nil)
			want := int64(0)
			totals, err := r.Jobs.Totals(t.Context(), f, site.ByUser, 9)
			is(t, "Totals", err, nil)
			for _, total := range totals {
				want += total.Jobs
			}
			if want == 0 || want != int64(len(jobs)) {
				t.Errorf("%s: the sums have %d jobs, the list %d", name, want, len(jobs))
			}
		}
		few, err := r.Jobs.Totals(t.Context(), site.Filter{}, site.ByUser, 1)
		if err != nil || len(few) != 1 || few[0].Name != "" {
			t.Errorf("%v %v: one total is the most wasteful", few, err)
		}
		same(t, "a reader of nothing", text(site.Filter{Access: &site.Access{}}, site.ByWeek), []string(nil))
	})
}
