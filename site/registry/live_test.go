package registry

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

const nodes = "nodes" // an owner

// running is a live run of a job on a node, which has used so many of 100 core-seconds.
func running(id uint64, node string, used float64) site.LiveRun {
	run := job(id, 0)
	run.Node, run.Ending = node, rt.Ending{State: rt.StateRunning}
	f := (&report.Summary{Run: run}).Figures()
	f.CPU.CoresOf, f.CPU.AllocatedSecs, f.CPU.UsedSecs = "allocation", rt.Some(100.0), rt.Some(used)
	f.Record.Last = start.Add(time.Duration(used) * time.Second)
	return *f
}

// putLive stores a report and returns the names of the jobs that are wanted.
func putLive(t *testing.T, r *Registry, node string, runs ...site.LiveRun) string {
	t.Helper()
	wanted, err := r.Live.Put(t.Context(), nodes, site.LiveReport{Cluster: "c", Node: node, Runs: runs}, time.Now())
	is(t, "Live.Put", err, nil)
	return strings.Join(wanted, " ")
}

// liveList describes the jobs as a reader sees them, and checks the registry.
func liveList(t *testing.T, r *Registry, access *site.Access) string {
	t.Helper()
	jobs, _, err := r.Jobs.List(t.Context(), site.Filter{Access: access}, "", 100)
	is(t, "List", err, nil)
	var lines []string
	for i := range jobs {
		j := &jobs[i]
		line := fmt.Sprintf("%d.%d %s %v of %v, %d live", j.JobID, j.Generation, j.State, j.CoreSecsUsed.Or(-1), j.CoreSecs.Or(-1), len(j.Live))
		if at := j.LastReading(); !at.IsZero() {
			line += fmt.Sprint(", read at ", at.Sub(start))
		}
		lines = append(lines, line)
	}
	problems, err := r.Check(t.Context())
	is(t, "Check", err, nil)
	same(t, "Check", strings.Join(problems, "; "), "")
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// endLiveRun stores the end of a run as a node delivers it.
func endLiveRun(t *testing.T, r *Registry, n int, f site.LiveRun, used float64) {
	t.Helper()
	record := f.Summary().Run
	record.Ending = rt.Ending{State: rt.StateEnded, Outcome: rt.OutcomeFinished, End: time.Now()}
	id := fmt.Sprintf("20260301t000000-%026d", n)
	is(t, "Create", r.Runs.Create(t.Context(), site.StoredRun{ID: id, Owner: nodes, Created: start}), nil)
	put(t, r, site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: 1, SHA256: "r", Created: start}, []byte("r"), &record)
	text := fmt.Sprintf(`{"cpu":{"used_secs":%v,"allocated_secs":200,"cores_of":"allocation"}}`, used)
	is(t, "Finish", finish(t, r, id, site.Finish{RunStatus: "finished", DataSource: "inline", Summary: []byte(text)}), nil)
}

// A report replaces the one before. A run is in the sums of its job once, before its delivery and after it, and leaves
// when its node does not name it any more.
func TestLive(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, again func() *Registry) {
		one, two, wide := running(1, "n1", 10), running(2, "n1", 20), running(3, "n1", 30)
		putLive(t, r, "n1", one, two, wide)
		putLive(t, r, "n2", running(3, "n2", 40))
		same(t, "at first", liveList(t, r, nil),
			"1.1 running 10 of 100, 1 live, read at 10s; 2.1 running 20 of 100, 1 live, read at 20s; 3.1 running 70 of 200, 2 live, read at 40s")
		for used := range 3 {
			putLive(t, r, "n1", running(1, "n1", float64(used)), two, wide)
		}
		rows, err := collect(t.Context(), r.db.read, scanText, "SELECT stem FROM live")
		is(t, "rows", err, nil)
		same(t, "rows", len(rows), 4)
		endLiveRun(t, r, 3, wide, 35)
		same(t, "one of two nodes", liveList(t, again(), nil),
			"1.1 running 2 of 100, 1 live, read at 2s; 2.1 running 20 of 100, 1 live, read at 20s; 3.1 running 75 of 300, 1 live, read at 40s")
		ended := two
		ended.Run.State, ended.Run.End = rt.StateEnded, time.Now()
		putLive(t, r, "n1", ended)
		same(t, "one has ended, one is gone", liveList(t, r, nil), "2.1 ended 20 of 100, 1 live, read at 20s; 3.1 running 75 of 300, 1 live, read at 40s")
		endLiveRun(t, r, 2, two, 22)
		endLiveRun(t, r, 4, running(3, "n2", 0), 50)
		putLive(t, r, "n1")
		same(t, "delivered", liveList(t, r, nil), "2.1 ended 22 of 200, 0 live; 3.1 ended 85 of 400, 0 live")
	})
}

// A report of a run that is delivered already, as after a finish without an answer, adds nothing to the sums.
func TestLiveAfterDelivery(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		one := running(1, "n1", 10)
		putLive(t, r, "n1", one)
		endLiveRun(t, r, 1, one, 35)
		one.Run.State, one.Run.End = rt.StateEnded, time.Now()
		putLive(t, r, "n1", one)
		same(t, "reported again", liveList(t, r, nil), "1.1 ended 35 of 200, 0 live")
		putLive(t, r, "n1")
		same(t, "at last", liveList(t, r, nil), "1.1 ended 35 of 200, 0 live")
	})
}

// The readings of a job are wanted for a time after someone has looked at it, on all of its nodes.
func TestLiveWanted(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		one, two := running(1, "n1", 10), running(2, "n1", 20)
		putLive(t, r, "n1", one, two)
		same(t, "before", putLive(t, r, "n1", one, two), "")
		jobs, _, err := r.Jobs.List(t.Context(), site.Filter{JobID: rt.Some[uint64](2)}, "", 1)
		is(t, "List", err, nil)
		is(t, "Want", r.Live.Want(t.Context(), jobs[0], time.Now()), nil)
		stem := two.Summary().Run.FileStem()
		same(t, "wanted", putLive(t, r, "n1", one, two), stem)
		two.Run.Meta.JobName = "known later"
		same(t, "with another name", putLive(t, r, "n1", one, two), stem)
		jobs, _, err = r.Jobs.List(t.Context(), site.Filter{Name: "later"}, "", 9)
		is(t, "List", err, nil)
		if len(jobs) != 1 || jobs[0].Name != "known later" {
			t.Errorf("%+v", jobs)
		}
		is(t, "Want in the past", r.db.execute(t.Context(), "", "UPDATE live SET wanted = $1", micros(time.Now().Add(-time.Second))), nil)
		same(t, "later", putLive(t, r, "n1", one, two), "")
	})
}

// A reader sees the live runs of its users and accounts. A node says nothing of the jobs of other owners and users.
func TestLiveOfOthers(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		mallory := running(1, "n2", 90)
		mallory.Run.User, mallory.Run.Account = "mallory", "lab"
		putLive(t, r, "n1", running(1, "n1", 10))
		putLive(t, r, "n2", mallory)
		_, err := r.Live.Put(t.Context(), "other nodes", site.LiveReport{Cluster: "c", Node: "n1", Runs: []site.LiveRun{running(1, "n1", 50)}}, time.Now())
		is(t, "Put", err, nil)
		same(t, "an operator", liveList(t, r, nil), "1.1 running 10 of 100, 1 live, read at 10s; 1.2 running 90 of 100, 1 live, read at 1m30s; 1.3 running 50 of 100, 1 live, read at 50s")
		same(t, "a user", liveList(t, r, &site.Access{Users: []string{"mallory"}}), "1.2 running 90 of 100, 1 live, read at 1m30s")
		same(t, "an account", liveList(t, r, &site.Access{Accounts: []string{"nobody"}}), "")
		putLive(t, r, "n1")
		same(t, "the others stay", liveList(t, r, nil), "1.2 running 90 of 100, 1 live, read at 1m30s; 1.3 running 50 of 100, 1 live, read at 50s")
	})
}

// After a change of its token a node has another owner. The rows of the old one stay for a moment: two owners can report
// a run in turns.
func TestLiveOfANewOwner(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		now := time.Now()
		report := func(owner string, at time.Time) {
			t.Helper()
			_, err := r.Live.Put(t.Context(), owner, site.LiveReport{Cluster: "c", Node: "n1", Runs: []site.LiveRun{running(1, "n1", 10)}}, at)
			is(t, "Put", err, nil)
		}
		report("old", now)
		report("new", now.Add(time.Minute))
		is(t, "Expire", r.Live.Expire(t.Context(), now.Add(time.Minute)), nil)
		same(t, "at the change", liveList(t, r, nil), "1.1 running 10 of 100, 1 live, read at 10s; 1.2 running 10 of 100, 1 live, read at 10s")
		report("new", now.Add(time.Hour))
		is(t, "Expire", r.Live.Expire(t.Context(), now.Add(time.Hour)), nil)
		same(t, "later", liveList(t, r, nil), "1.2 running 10 of 100, 1 live, read at 10s")
	})
}

// The runs of a node that is silent go, and their number is bounded.
func TestLiveIsBounded(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		putLive(t, r, "n1", running(1, "n1", 10))
		is(t, "Expire", r.Live.Expire(t.Context(), time.Now()), nil)
		same(t, "a node that was here", liveList(t, r, nil), "1.1 running 10 of 100, 1 live, read at 10s")
		is(t, "Expire", r.Live.Expire(t.Context(), time.Now().Add(keepLive+time.Minute)), nil)
		same(t, "a silent node", liveList(t, r, nil), "")
		putLive(t, r, "n1", running(1, "n1", 10))
		is(t, "Clear", r.Live.Clear(t.Context()), nil)
		same(t, "cleared", liveList(t, r, nil), "")
		is(t, "fill", r.db.change(t.Context(), "fill", func(tx transaction) error {
			return execute(t.Context(), tx, fmt.Sprintf(`INSERT INTO live (owner, cluster, node, stem, job_id, generation, attempt, state, outcome, started, head, reported, figures)
				WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
				SELECT 'nodes', 'c', 'n' || i, 's', i, 1, 0, 'running', '', 0, '', 0, '{}' FROM n`, maxLive))
		}), nil)
		_, err := r.Live.Put(t.Context(), nodes, site.LiveReport{Cluster: "c", Node: "n0", Runs: []site.LiveRun{running(1, "n0", 10)}}, time.Now())
		is(t, "one more", err, site.ErrQuota)
	})
}
