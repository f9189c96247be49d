package registry

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// putRun stores a run with a record.
func putRun(t *testing.T, r *Registry, n int, record rt.Run) site.StoredRun {
	t.Helper()
	run := newRun(t, r, n)
	put(t, r, site.Object{RunID: run.ID, Name: site.RecordName, Class: site.ClassRecord, Bytes: 1, SHA256: "r", Created: run.Created}, []byte("r"), &record)
	return run
}

// job returns the record of a job of two hours that started a number of hours after start.
func job(id uint64, hour int) rt.Run {
	at := start.Add(time.Duration(hour) * time.Hour)
	return rt.Run{
		Identity:   rt.Identity{Cluster: "c", JobID: rt.Some(id), Node: "n1", Start: at},
		Allocation: rt.Allocation{User: "alice", Account: "physics", Partition: "batch"},
		Meta:       rt.Metadata{JobName: "Train_Model"},
		Ending:     rt.Ending{State: rt.StateEnded, Outcome: rt.OutcomeFinished, End: at.Add(2 * time.Hour)},
	}
}

// pages reads the list in pages of a size and returns the ids of the jobs.
func pages(t *testing.T, r *Registry, f site.Filter, limit int) (ids []uint64) {
	t.Helper()
	next := ""
	for range 1000 {
		jobs, after, err := r.Jobs.List(t.Context(), f, next, limit)
		if err != nil || len(jobs) > limit {
			t.Fatalf("%+v: %d jobs, %v", f, len(jobs), err)
		}
		for _, j := range jobs {
			ids = append(ids, j.JobID)
		}
		if after == "" {
			return ids
		}
		next = after
	}
	t.Fatalf("%+v: the list has no end", f)
	return nil
}

func TestJobFilters(t *testing.T) {
	hour := func(n int) time.Time { return start.Add(time.Duration(n) * time.Hour) }
	records := []rt.Run{job(1, 0), job(2, 1), job(3, 2), job(4, 3), job(5, 3), job(6, 4), job(7, 5)}
	records[1].User, records[1].Account = "bob", "chemistry"
	records[2].User, records[2].Partition = "carol", "debug"
	records[3].Outcome, records[3].ArrayJobID = rt.OutcomeOOM, rt.Some[uint64](5)
	records[4].ArrayJobID = rt.Some[uint64](5)
	records[4].Cluster, records[4].Meta.JobName = "d", `100%_Ärger\'; --`
	records[5].Ending = rt.Ending{State: rt.StateRunning}
	records[6].HetJobID, records[6].Meta.JobName = rt.Some[uint64](6), "100x ärgerlich"
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		for i, record := range records {
			putRun(t, r, i, record)
		}
		none := rt.Run{Identity: rt.Identity{Node: "outside of a scheduler"}}
		putRun(t, r, 100, none)
		for _, c := range []struct {
			name   string
			filter site.Filter
			want   []uint64
		}{
			{"all", site.Filter{}, []uint64{7, 6, 5, 4, 3, 2, 1}},
			{"cluster", site.Filter{Cluster: "d"}, []uint64{5}},
			{"user", site.Filter{Users: []string{"bob"}}, []uint64{2}},
			{"users", site.Filter{Users: []string{"bob", "carol", "dave"}}, []uint64{3, 2}},
			{"no such user", site.Filter{Users: []string{"bob' OR '1'='1"}}, nil},
			{"account", site.Filter{Accounts: []string{"chemistry"}}, []uint64{2}},
			{"user and account", site.Filter{Users: []string{"alice"}, Accounts: []string{"chemistry"}}, nil},
			{"users and account", site.Filter{Users: []string{"alice", "carol"}, Accounts: []string{"physics"}}, []uint64{7, 6, 5, 4, 3, 1}},
			{"partition", site.Filter{Partitions: []string{"debug"}}, []uint64{3}},
			{"outcome", site.Filter{Outcome: "oom"}, []uint64{4}},
			{"running", site.Filter{State: rt.StateRunning}, []uint64{6}},
			{"job", site.Filter{JobID: rt.Some[uint64](2)}, []uint64{2}},
			{"array", site.Filter{JobID: rt.Some[uint64](5)}, []uint64{5, 4}},
			{"array in a cluster", site.Filter{JobID: rt.Some[uint64](5), Cluster: "c"}, []uint64{4}},
			{"heterogeneous job", site.Filter{JobID: rt.Some[uint64](6)}, []uint64{7, 6}},
			{"largest id", site.Filter{JobID: rt.Some[uint64](math.MaxUint64)}, nil},
			{"name in another case", site.Filter{Name: "n_mODEL"}, []uint64{6, 4, 3, 2, 1}},
			{"name with a percent sign", site.Filter{Name: "100%"}, []uint64{5}},
			{"name with an underscore", site.Filter{Name: "%_"}, []uint64{5}},
			{"name with a backslash", site.Filter{Name: `\'; --`}, []uint64{5}},
			{"name with other letters", site.Filter{Name: "ÄRGER"}, []uint64{7, 5}},
			{"full name", site.Filter{FullName: `100%_ärger\'; --`}, []uint64{5}},
			{"part of a full name", site.Filter{FullName: "100"}, nil},
			{"since", site.Filter{Since: hour(5)}, []uint64{7, 6, 5, 4}},
			{"until", site.Filter{Until: hour(2)}, []uint64{2, 1}},
			{"interval", site.Filter{Since: hour(3), Until: hour(3)}, []uint64{3, 2}},
			{"running job is in each later interval", site.Filter{Since: hour(1000), Until: hour(1001)}, []uint64{6}},
			{"user since", site.Filter{Users: []string{"alice"}, Since: hour(6)}, []uint64{7, 6}},
		} {
			for _, limit := range []int{1, 2, 100} {
				same(t, fmt.Sprintf("%s, pages of %d", c.name, limit), pages(t, r, c.filter, limit), c.want)
			}
		}
		for _, limit := range []int{0, -1} {
			jobs, _, err := r.Jobs.List(t.Context(), site.Filter{}, "", limit)
			is(t, "Jobs", err, nil)
			same(t, fmt.Sprintf("jobs up to %d", limit), len(jobs), 1)
		}
		for cursor, want := range map[string]error{
			"x": site.ErrCursor, "1.2": site.ErrCursor, "1.2.abc": site.ErrCursor, "1.2.63\n": site.ErrCursor, "1.-2.": site.ErrCursor,
			"1111111111111111111.2.": site.ErrCursor, "1.2.63' OR 1=1": site.ErrCursor,
			"-1.0.": nil, "1.2.63": nil, "1.2.00ff": nil, "999999999999999999.999999999999999999." + strings.Repeat("ff", 200): nil,
		} {
			_, _, err := r.Jobs.List(t.Context(), site.Filter{}, cursor, 10)
			is(t, "cursor "+cursor, err, want)
		}
	})
}

// Jobs that begin at the same time are in one order, and a page neither repeats nor omits one.
func TestJobsOfOneMoment(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		for i := range 20 {
			record := job(uint64(i/2), 0)
			record.Cluster = fmt.Sprint("c", i%2)
			putRun(t, r, i, record)
		}
		want := pages(t, r, site.Filter{}, 100)
		same(t, "jobs", len(want), 20)
		for limit := range 19 {
			same(t, fmt.Sprintf("pages of %d", limit+1), pages(t, r, site.Filter{}, limit+1), want)
		}
	})
}

// A call examines a limited number of jobs, and its cursor continues there.
func TestSearchContinues(t *testing.T) {
	const jobs = 24_000
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		r.Jobs.windows = windows{list: 20_000, other: 3}
		err := r.db.change(t.Context(), "fill", func(tx transaction) error {
			_, err := tx.ExecContext(t.Context(), fmt.Sprintf(Fill, jobs, 0))
			return err
		})
		is(t, "fill", err, nil)
		found, next, err := r.Jobs.List(t.Context(), site.Filter{Name: "absent"}, "", 10)
		if len(found) > 0 || next == "" || err != nil {
			t.Errorf("first call: %d jobs, %q, %v", len(found), next, err)
		}
		found, next, err = r.Jobs.List(t.Context(), site.Filter{Name: "absent"}, next, 10)
		if len(found) > 0 || next != "" || err != nil {
			t.Errorf("second call: %d jobs, %q, %v", len(found), next, err)
		}
		var want []uint64
		for id := uint64(jobs / 5003 * 5003); id > 0; id -= 5003 {
			want = append(want, id)
		}
		same(t, "rare outcome", pages(t, r, site.Filter{Outcome: "oom"}, 7), want)
		same(t, "rare outcome in one page", pages(t, r, site.Filter{Outcome: "oom"}, 1000), want)
		all := pages(t, r, site.Filter{Users: []string{"user7"}}, 100)
		same(t, "jobs of a user", len(all), jobs/2000)
		var three []uint64
		for _, user := range []string{"user7", "user8", "user9"} {
			three = append(three, pages(t, r, site.Filter{Users: []string{user}}, 100)...)
		}
		slices.SortFunc(three, func(a, b uint64) int { return int(b) - int(a) })
		users := []string{"user9", "user7", "user8", "user8"}
		for _, limit := range []int{1, 4, 5, 100} {
			same(t, "jobs of three users", pages(t, r, site.Filter{Users: users}, limit), three)
			same(t, "ended jobs of three users", pages(t, r, site.Filter{Users: users, State: rt.StateEnded}, limit), three)
		}
		for i := range maxValues {
			users = append(users, fmt.Sprint("nouser", i))
		}
		same(t, "jobs of many users", pages(t, r, site.Filter{Users: users}, 100), three)
		same(t, "jobs of a user in an account", pages(t, r, site.Filter{Users: []string{"user7"}, Accounts: []string{"account7"}}, 100), all)
	})
}

// The runs of a job come from all its nodes and attempts. The newest attempt decides how it ended,
// and accounting more than any node.
func TestJobOfSeveralRuns(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		state := func() string {
			t.Helper()
			var state, outcome, name string
			var started int64
			var ended *int64
			err := r.db.read.QueryRow("SELECT state, outcome, name, started, ended FROM job WHERE job_id = 9").Scan(&state, &outcome, &name, &started, &ended)
			if err != nil {
				return err.Error()
			}
			text := fmt.Sprint(state, " ", outcome, " ", name, " ", moment(started).Sub(start))
			if ended != nil {
				text += fmt.Sprint(" ", moment(*ended).Sub(start))
			}
			return text
		}
		change := func(n, hour int, edit func(*rt.Run)) {
			t.Helper()
			record := job(9, hour)
			edit(&record)
			run := site.StoredRun{ID: fmt.Sprintf("20260301t130000-%026d", n), Owner: "owner", Created: start}
			if _, err := r.Runs.Get(t.Context(), run.ID); err != nil {
				is(t, "CreateRun", r.Runs.Create(t.Context(), run), nil)
			}
			put(t, r, site.Object{RunID: run.ID, Name: site.RecordName, Class: site.ClassRecord, Created: start}, []byte("r"), &record)
		}
		for _, step := range []struct {
			name    string
			n, hour int
			edit    func(*rt.Run)
			want    string
		}{
			{"a node runs", 1, 2, func(r *rt.Run) { r.Ending = rt.Ending{State: rt.StateRunning} }, "running  train_model 2h0m0s"},
			{"another node has ended", 2, 1, func(r *rt.Run) { r.Outcome = rt.OutcomeFailed }, "running  train_model 1h0m0s"},
			{"both have ended", 1, 2, func(*rt.Run) {}, "ended failed train_model 1h0m0s 4h0m0s"},
			{"a later attempt runs, without a name", 3, 10, func(r *rt.Run) {
				r.Attempt, r.Meta.JobName, r.Ending = 1, "", rt.Ending{State: rt.StateRunning}
			}, "running  train_model 1h0m0s"},
			{"it was killed", 3, 10, func(r *rt.Run) { r.Attempt, r.Outcome = 1, rt.OutcomeOOM }, "ended oom train_model 1h0m0s 12h0m0s"},
			{"accounting corrects its second node", 4, 10, func(r *rt.Run) {
				r.Attempt, r.Outcome, r.OutcomeSource = 1, rt.OutcomeTimeout, "sacct"
			}, "ended timeout train_model 1h0m0s 12h0m0s"},
			{"the second node was of another job", 4, 10, func(r *rt.Run) { r.JobID = rt.Some[uint64](10) }, "ended oom train_model 1h0m0s 12h0m0s"},
		} {
			change(step.n, step.hour, step.edit)
			same(t, step.name, state(), step.want)
		}
		jobs, _, err := r.Jobs.List(t.Context(), site.Filter{JobID: rt.Some[uint64](9)}, "", 10)
		is(t, "Jobs", err, nil)
		var ids []string
		for _, run := range jobRuns(t, r, jobs[0], nil) {
			ids = append(ids, strings.TrimLeft(run.ID[16:], "0"))
		}
		same(t, "runs", ids, []string{"1", "2", "3"})
	})
}

// Only the owner of a job decides to which user and account it belongs.
func TestOtherOwnersOfAJob(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		for n, step := range []struct{ owner, user, account, name, want string }{
			{"a", "", "", "fit", ",,fit"},
			{"b", "ann", "chem", "Other", ",,fit"},
			{"a", "ann", "bio", "", "ann,bio,fit"},
			{"b", "ann", "chem", "other", "ann,bio,fit"},
		} {
			run := site.StoredRun{ID: fmt.Sprintf("20260301t130000-%026d", n), Owner: step.owner, Created: start}
			is(t, "CreateRun", r.Runs.Create(t.Context(), run), nil)
			record := job(9, 0)
			record.User, record.Account, record.Meta.JobName = step.user, step.account, step.name
			put(t, r, site.Object{RunID: run.ID, Name: site.RecordName, Class: site.ClassRecord, Created: start}, []byte("r"), &record)
			var got string
			err := r.db.read.QueryRow("SELECT username || ',' || account || ',' || name FROM job WHERE job_id = 9 AND owner = 'a'").Scan(&got)
			is(t, "job", err, nil)
			same(t, "job", got, step.want)
		}
	})
}

// A hostile record is stored, or refused with an error.
func TestHostileRecord(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		long := strings.Repeat("ȺÿĀ", 1<<10)
		record := job(1, 0)
		record.Cluster, record.User, record.Account, record.Partition, record.Meta.JobName = long, long[1:], long[2:], "\x00\xff", long
		record.State, record.Outcome = rt.State(long), rt.Outcome(long)
		record.Start = time.Unix(math.MaxInt32*4, 0)
		run := putRun(t, r, 1, record)
		got, err := r.Runs.Get(t.Context(), run.ID)
		is(t, "Run", err, nil)
		same(t, "name of the record", got.Record.Meta.JobName, strings.ToValidUTF8(long, "\uFFFD"))
		same(t, "jobs", len(pages(t, r, site.Filter{Name: long, Cluster: long, Users: []string{long[1:]}}, 10)), 1)
		for _, edit := range []func(*rt.Run){
			func(r *rt.Run) { r.JobID.Set(math.MaxUint64) },
			func(r *rt.Run) { r.ArrayJobID.Set(1 << 63) },
			func(r *rt.Run) { r.HetJobID.Set(1 << 63) },
			func(r *rt.Run) { r.Attempt = 1 << 63 },
		} {
			record := job(2, 0)
			edit(&record)
			if _, err := r.Runs.PutObject(t.Context(), csv(run, "2", "a"), []byte("x"), &record); err == nil {
				t.Errorf("accepted: %+v", record.Identity)
			}
		}
		checkUsage(t, r)
	})
}

func TestQuota(t *testing.T) {
	const each1 = 1 << 10
	each(t, Config{Quota: 20 << 10, OwnerQuota: 12 << 10}, func(t *testing.T, r *Registry, _ func() *Registry) {
		run := newRun(t, r, 1)
		sized := func(name string, bytes int64) site.Object {
			o := csv(run, name, name)
			o.Bytes = bytes
			return o
		}
		put(t, r, sized("1", 8<<10), []byte("x"), nil)
		_, err := r.Runs.PutObject(t.Context(), sized("2", 2<<10), []byte("x"), nil)
		is(t, "more than the owner's quota", err, site.ErrQuota)
		put(t, r, sized("1", 2<<10), []byte("x"), nil) // in place of more
		put(t, r, sized("2", 2<<10), []byte("x"), nil)
		checkUsage(t, r)
		other := site.StoredRun{ID: "20260301t000000-other", Owner: "other", Created: start}
		is(t, "another owner", r.Runs.Create(t.Context(), other), nil)
		run = other
		_, err = r.Runs.PutObject(t.Context(), sized("1", 11<<10), []byte("x"), nil)
		is(t, "more than the quota of all", err, site.ErrQuota)
		is(t, "large registration", r.Runs.Create(t.Context(), site.StoredRun{ID: "3", Metadata: make([]byte, 20<<10)}), site.ErrQuota)
		_, err = r.Runs.Get(t.Context(), "3")
		is(t, "refused run", err, site.ErrNotFound)
		f := site.Finish{DataSource: "s3", Summary: []byte(`"` + strings.Repeat("x", 11<<10) + `"`)}
		is(t, "large finish", finish(t, r, run.ID, f), site.ErrQuota)
		own, total, err := r.Runs.Usage(t.Context(), "other")
		is(t, "Usage", err, nil)
		if own != each1 || total <= own {
			t.Errorf("use %d of %d", own, total)
		}
	})
}

func TestExpire(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		var runs []site.StoredRun
		for i := range 6 {
			run := putRun(t, r, i, job(uint64(i/2), i))
			for _, name := range []string{"1", "2"} {
				o := csv(run, name, name)
				if name == "2" {
					o.Stored = run.ID + "/2"
				}
				put(t, r, o, []byte("x"), nil)
			}
			runs = append(runs, run)
		}
		f := site.Finish{DataSource: "s3", Keys: []string{"1", "2"}}
		is(t, "finish", finish(t, r, runs[1].ID, f), nil) // now
		late := csv(runs[2], "3", "3")
		late.Created = start.Add(1000 * time.Hour)
		put(t, r, late, []byte("x"), nil)
		before := start.Add(3*time.Hour + time.Minute) // runs 0 to 3 are older, 1 and 2 had later additions

		stored, n, err := r.Removals.ExpireRuns(t.Context(), before, 1)
		is(t, "ExpireRuns", err, nil)
		same(t, "removed runs", n, 1)
		same(t, "stored objects", stored, []string{runs[0].ID + "/2"})
		_, n, err = r.Removals.ExpireRuns(t.Context(), before, 10)
		is(t, "ExpireRuns", err, nil)
		same(t, "removed runs", n, 1)
		_, err = r.Runs.Get(t.Context(), runs[3].ID)
		is(t, "removed run", err, site.ErrNotFound)
		checkUsage(t, r)
		same(t, "jobs", pages(t, r, site.Filter{}, 10), []uint64{2, 1, 0})

		later := time.Now().Add(time.Hour)
		stored, n, err = r.Removals.ExpireRuns(t.Context(), later, 10)
		is(t, "ExpireRuns", err, nil)
		same(t, "removed runs", n, 4)
		same(t, "stored objects", len(stored), 4)
		same(t, "jobs", pages(t, r, site.Filter{}, 10), []uint64{})
		own, total, err := r.Runs.Usage(t.Context(), "owner")
		is(t, "Usage", err, nil)
		same(t, "use", []int64{own, total}, []int64{0, 0})
	})
}

// The row of a job has its name and its label. From the newest attempt it has Slurm's own state,
// the suspended time and the marks, whichever run was registered first. Texts that a rewritten run
// lacks go.
func TestRowOfJobHasWhatTheListShows(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		finish := func(id, summary string) {
			t.Helper()
			_, err := r.Runs.Finish(t.Context(), id, site.Finish{RunStatus: "finished", DataSource: "inline", Summary: []byte(summary)}, nil, nil)
			is(t, "FinishRun", err, nil)
		}
		row := func() string {
			t.Helper()
			jobs, _, err := r.Jobs.List(t.Context(), site.Filter{}, "", 10)
			if err != nil || len(jobs) != 1 {
				t.Fatalf("%d jobs, %v", len(jobs), err)
			}
			j := jobs[0]
			return fmt.Sprintf("%s %s|%s|%s|%v|%s|%s|%s", j.Label, j.Name, j.Outcome, j.SlurmState, j.SuspendedSecs.Or(-1), j.CoreMark, j.MemoryMark, j.WasteMark())
		}
		record := job(9, 0)
		record.Outcome = rt.OutcomeFailed
		first := putRun(t, r, 1, record)
		finish(first.ID, `{"slurm_state":"NODE_FAIL","suspended_secs":50}`)
		same(t, "the first attempt", row(), "9 Train_Model|failed|NODE_FAIL|50|||")

		again := job(9, 3)
		again.Attempt, again.Outcome, again.OutcomeSource = 1, rt.OutcomeCancelled, "sacct"
		again.ArrayJobID, again.ArrayTaskID = rt.Some[uint64](7), rt.Some[uint64](3)
		second := putRun(t, r, 2, again)
		finish(second.ID, `{"slurm_state":"CANCELLED by bob","elapsed_secs":10,"cpu":{"used_secs":1,"used_mark":"at least","allocated_secs":9,"cores_of":"allocation"},
			"memory":{"peak_bytes":1,"peak_mark":"any","limit_bytes":2,"limit_of":"cgroup"}}`)
		same(t, "the newest attempt", row(), "7_3 Train_Model|cancelled|CANCELLED by bob|-1|at least||at most")

		other := again
		other.Node, other.OutcomeSource, other.Outcome = "n2", "epilog", rt.OutcomeUnknown
		third := putRun(t, r, 3, other)
		finish(third.ID, `{"suspended_secs":7,"elapsed_secs":10,"memory":{"peak_bytes":1,"peak_mark":"at least","limit_bytes":2,"limit_of":"cgroup"}}`)
		same(t, "with another node", row(), "7_3 Train_Model|cancelled|CANCELLED by bob|7|at least|at least|at most")

		old, err := r.Runs.Get(t.Context(), second.ID)
		is(t, "Run", err, nil)
		objects, err := r.Objects.OfRun(t.Context(), second.ID)
		is(t, "Objects", err, nil)
		forgotten := *old.Finish
		forgotten.Summary = []byte(`{}`)
		again.Meta.JobName = "x"
		is(t, "Rewrite", r.Removals.Rewrite(t.Context(), site.Rewrite{Old: old, OldRecord: objects[0], Metadata: old.Metadata, Finish: &forgotten, Run: &again}), nil)
		same(t, "after Rewrite", row(), "7_3 Train_Model|cancelled||7||at least|at most")
	})
}
