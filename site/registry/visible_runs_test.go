package registry

import (
	"fmt"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// jobRuns reads the runs of a job in pages of three.
func jobRuns(t *testing.T, r *Registry, job site.JobRow, access *site.Access) (runs []site.StoredRun) {
	t.Helper()
	after := ""
	for {
		some, next, err := r.Visible.OfJob(t.Context(), job, access, after, 3)
		is(t, "JobRuns", err, nil)
		runs = append(runs, some...)
		if next == "" {
			return runs
		}
		after = next
	}
}

// A reader sees the own jobs and the jobs of the own accounts, in lists and one by one. The filter
// and the size of a page do not matter.
func TestAccess(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		owners := []string{"alice physics", "bob physics", "carol chemistry", "alice chemistry", "bob biology", " ", "dave physics"}
		var runs []site.StoredRun
		for n := range 70 {
			record := job(uint64(n+1), n/3)
			record.User, record.Account, _ = strings.Cut(owners[n%7], " ")
			record.ArrayJobID = rt.Some(uint64(1000 + n%2))
			runs = append(runs, putRun(t, r, n, record))
		}
		runs = append(runs, newRun(t, r, 70)) // without a record
		for _, a := range []site.Access{
			{}, {Users: []string{""}}, {Accounts: []string{""}}, {Users: []string{"alice"}}, {Users: []string{"nobody"}},
			{Accounts: []string{"physics"}}, {Users: []string{"alice"}, Accounts: []string{"physics"}},
			{Users: []string{"bob"}, Accounts: []string{"chemistry", "biology"}}, {Users: []string{"%"}, Accounts: []string{"' OR '1'='1"}},
		} {
			sees := func(n int) bool {
				user, account, _ := strings.Cut(owners[n%7], " ")
				isOwn := len(a.Users) > 0 && user == a.Users[0] && user != ""
				return isOwn || account != "" && strings.Contains(" "+strings.Join(a.Accounts, " ")+" ", " "+account+" ")
			}
			for name, f := range map[string]site.Filter{
				"all": {}, "user": {Users: []string{"alice", "bob"}}, "account": {Accounts: []string{"physics"}}, "array": {JobID: rt.Some[uint64](1001)},
				"name": {Name: "train"}, "both": {Users: []string{"dave"}, Accounts: []string{"physics"}}, "none": {Name: "absent"},
			} {
				var want []uint64
				for n := 69; n >= 0; n-- {
					user, account, _ := strings.Cut(owners[n%7], " ")
					isUser := len(f.Users) == 0 || strings.Contains(strings.Join(f.Users, " "), user) && user != ""
					isAccount := len(f.Accounts) == 0 || account == f.Accounts[0]
					isFamily := !f.JobID.Valid() || n%2 == 1
					isName := f.Name != "absent"
					if sees(n) && isUser && isAccount && isFamily && isName {
						want = append(want, uint64(n+1))
					}
				}
				f.Access = &a
				for _, limit := range []int{1, 7, 100} {
					same(t, fmt.Sprintf("%+v, %s, pages of %d", a, name, limit), pages(t, r, f, limit), want)
				}
			}
			for n, run := range runs {
				_, err := r.Visible.Get(t.Context(), run.ID, &a)
				want := error(nil)
				if n == 70 || !sees(n) {
					want = site.ErrNotFound
				}
				is(t, fmt.Sprintf("%+v, run %d", a, n), err, want)
			}
		}
		for _, run := range runs {
			_, err := r.Visible.Get(t.Context(), run.ID, nil)
			is(t, "an operator reads "+run.ID, err, nil)
		}
	})
}

// The cursor of a page that ends before a match names no job of others.
func TestCursorHidesOthers(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		r.Jobs.windows = windows{list: 3, other: 3}
		for n := range 40 {
			record := job(uint64(n+1), n)
			if n%8 != 0 {
				record.User = "bob"
			}
			putRun(t, r, n, record)
		}
		for name, f := range map[string]site.Filter{
			"name": {Name: "absent"}, "user": {Users: []string{"bob"}}, "cluster": {Cluster: "other"}, "outcome": {Outcome: "oom"},
		} {
			f.Access = &site.Access{Users: []string{"alice"}}
			for next, calls := "", 0; ; calls++ {
				jobs, after, err := r.Jobs.List(t.Context(), f, next, 10)
				if err != nil || len(jobs) > 0 || calls > 100 {
					t.Fatalf("%s: %d jobs, %v", name, len(jobs), err)
				}
				if after == "" {
					break
				}
				if p, err := parseCursor(after, site.ByStart); err != nil || (p.jobID-1)%8 != 0 {
					t.Errorf("%s: the cursor %s is at job %d of another user: %v", name, after, p.jobID, err)
				}
				next = after
			}
		}
	})
}

// The id of a job is used again, or some of its runs do not name the user: those are for operators.
func TestAccessToRunsOfOneJob(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		for n, user := range []string{"alice", "bob", "", "bob", "alice"} {
			record := job(9, 0)
			record.User, record.Node = user, fmt.Sprint("n", n)
			if user == "" {
				record.Account = ""
			}
			putRun(t, r, n, record)
		}
		for user, want := range map[string]string{"alice": "n0 n4", "bob": "n1 n3", "carol": ""} {
			access := &site.Access{Users: []string{user}}
			var nodes []string
			for generation := range int64(2) {
				for _, run := range jobRuns(t, r, site.JobRow{Cluster: "c", JobID: 9, Generation: generation + 1}, access) {
					nodes = append(nodes, run.Record.Node)
				}
			}
			same(t, "runs that "+user+" sees", strings.Join(nodes, " "), want)
		}
	})
}

// The rows of a run are those that its finish names.
func TestHeldRows(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		run := putRun(t, r, 1, job(1, 0))
		for name, rows := range map[string]int64{"1.csv.gz": 10, "2.csv.gz": 20, "3.csv.gz": 400} {
			put(t, r, site.Object{RunID: run.ID, Name: name, Class: site.ClassCSV, Bytes: 1, SHA256: name, Rows: rows}, []byte("x"), nil)
		}
		held := func() site.Held {
			t.Helper()
			run, err := r.Visible.Get(t.Context(), run.ID, nil)
			is(t, "VisibleRun", err, nil)
			return run.Held
		}
		same(t, "running", held(), site.Held{RecordBytes: 1, RecordSHA256: "r", Rows: rt.Some[int64](430)})
		_, err := r.Runs.Finish(t.Context(), run.ID, site.Finish{RunStatus: "finished", DataSource: "s3", Keys: []string{"1.csv.gz", "2.csv.gz"}}, nil, nil)
		is(t, "FinishRun", err, nil)
		same(t, "finished", held(), site.Held{RecordBytes: 1, RecordSHA256: "r", Rows: rt.Some[int64](30)})
	})
}

// Runs without a record, and runs from outside a scheduler, are of no job: they are in a list of
// their own.
func TestUnassigned(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		var want []string // the newest first
		for n := range 30 {
			switch record := job(uint64(n+1), n); n % 3 {
			case 0:
				putRun(t, r, n, record)
			case 1:
				record.JobID = rt.None[uint64]()
				want = append([]string{putRun(t, r, n, record).ID + " alice"}, want...)
			default:
				want = append([]string{newRun(t, r, n).ID + " -"}, want...)
			}
		}
		list := func(limit int) (got []string) {
			t.Helper()
			for before, calls := "", 0; ; calls++ {
				runs, next, err := r.Visible.Unassigned(t.Context(), before, limit)
				is(t, "Unassigned", err, nil)
				for _, run := range runs {
					user := "-"
					if run.Record != nil {
						user = run.Record.User
					}
					got = append(got, run.ID+" "+user)
				}
				if next == "" || calls > 30 {
					return got
				}
				before = next
			}
		}
		for _, limit := range []int{1, 7, 10, 100} {
			same(t, fmt.Sprintf("pages of %d", limit), list(limit), want)
		}
		id, _, _ := strings.Cut(want[0], " ")
		record := job(99, 1) // it is the last without a record
		put(t, r, site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: 1, SHA256: "r"}, []byte("r"), &record)
		same(t, "a run has got a job", list(3), want[1:])
	})
}
