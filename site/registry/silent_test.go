package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// putSoFar stores the record so far of a running run, which a node has signed and sent at a time.
func putSoFar(t *testing.T, r *Registry, id string, f site.LiveRun, at time.Time) {
	t.Helper()
	record := f.Summary().Run
	put(t, r, site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: 1, SHA256: "s", Created: at, Signed: at}, []byte("s"), &record)
}

// expect compares the jobs, their outcomes, and the record of a run.
func expect(t *testing.T, r *Registry, id, what, want string) {
	t.Helper()
	jobs, _, err := r.Jobs.List(t.Context(), site.Filter{}, "", 9)
	is(t, "List", err, nil)
	text := liveList(t, r, nil)
	for i := range jobs {
		text += fmt.Sprintf("; %s", jobs[i].Outcome)
		if !jobs[i].End.IsZero() {
			text += fmt.Sprint(" after ", jobs[i].End.Sub(start))
		}
	}
	run, err := r.Visible.Get(t.Context(), id, nil)
	is(t, "Get", err, nil)
	same(t, what, fmt.Sprintf("%s; record %s %s", text, run.Record.State, run.Record.Outcome), want)
}

// A running run ends as lost if nothing of it arrives any more. It goes on with the next report or record of its node,
// and ends with the real delivery.
func TestSilentNode(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, again func() *Registry) {
		expire := func(after time.Duration) {
			t.Helper()
			is(t, "Expire", r.Live.Expire(t.Context(), start.Add(after)), nil)
		}
		report := func(after time.Duration, runs ...site.LiveRun) {
			t.Helper()
			_, err := r.Live.Put(t.Context(), nodes, site.LiveReport{Cluster: "c", Node: "n1", Runs: runs}, start.Add(after))
			is(t, "Live.Put", err, nil)
		}
		const lost = "1.1 ended -1 of -1, 0 live; lost after "
		id, one := fmt.Sprintf("20260301t000000-%026d", 1), running(1, "n1", 10)
		is(t, "Create", r.Runs.Create(t.Context(), site.StoredRun{ID: id, Owner: nodes, Created: start}), nil)
		report(0, one)
		putSoFar(t, r, id, one, start.Add(time.Hour))
		report(2*time.Hour, one)
		expire(keepLive + 90*time.Minute)
		expect(t, r, id, "a node that was here", "1.1 running 10 of 100, 1 live, read at 10s; ; record running ")
		expire(keepLive + 3*time.Hour)
		expect(t, r, id, "a silent node", lost+"2h0m0s; record ended lost")

		report(20*time.Hour, one)
		expect(t, again(), id, "the node is back", "1.1 running 10 of 100, 1 live, read at 10s; ; record running ")
		expire(30 * time.Hour)
		expect(t, r, id, "silent again", lost+"20h0m0s; record ended lost")

		putSoFar(t, r, id, one, start.Add(31*time.Hour))
		expect(t, r, id, "a record so far", "1.1 running -1 of -1, 0 live; ; record running ")
		expire(31*time.Hour + keepLive)
		expect(t, r, id, "a record of a moment ago", "1.1 running -1 of -1, 0 live; ; record running ")
		expire(32*time.Hour + keepLive)
		expect(t, r, id, "silent for the third time", lost+"31h0m0s; record ended lost")

		one.Run.Ending = rt.Ending{State: rt.StateEnded, Outcome: rt.OutcomeFinished, End: start.Add(3 * time.Hour)}
		putSoFar(t, r, id, one, start) // the clock of the node was set back
		is(t, "Finish", finish(t, r, id, site.Finish{RunStatus: "finished", DataSource: "inline",
			Summary: []byte(`{"cpu":{"used_secs":35,"allocated_secs":200,"cores_of":"allocation"}}`)}), nil)
		report(60*time.Hour, one)
		expire(100 * time.Hour)
		expect(t, again(), id, "delivered", "1.1 ended 35 of 200, 0 live; finished after 3h0m0s; record ended finished")
	})
}

// One dead node of two does not keep a job running, and decides nothing else.
func TestSilentNodeOfTwo(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		id, dead, other := fmt.Sprintf("20260301t000000-%026d", 1), running(1, "n1", 10), running(1, "n2", 20)
		is(t, "Create", r.Runs.Create(t.Context(), site.StoredRun{ID: id, Owner: nodes, Created: start}), nil)
		putSoFar(t, r, id, dead, start.Add(time.Hour))
		endLiveRun(t, r, 2, other, 35)
		same(t, "before", liveList(t, r, nil), "1.1 running 35 of 200, 0 live")
		is(t, "Expire", r.Live.Expire(t.Context(), time.Now()), nil)
		same(t, "after", liveList(t, r, nil), "1.1 ended 35 of 200, 0 live")
		jobs, _, err := r.Jobs.List(t.Context(), site.Filter{Outcome: string(rt.OutcomeFinished)}, "", 9)
		is(t, "List", err, nil)
		same(t, "jobs that finished", len(jobs), 1)
	})
}
