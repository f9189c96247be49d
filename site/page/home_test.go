package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

func (f *fake) home(t *testing.T, reader site.Reader) string {
	t.Helper()
	p := f.pages()
	p.conf.Fault = func(err error) { t.Error(err) }
	w := httptest.NewRecorder()
	p.ServePage(w, httptest.NewRequest(http.MethodGet, "/", nil), reader)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// addRecent adds a job of a user and an account that began some days ago, with 10 reserved core-hours.
func (f *fake) addRecent(t *testing.T, id int, user, account string, days int, used float64) {
	t.Helper()
	start := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -days)
	f.query(t, fmt.Sprintf(`INSERT INTO job (cluster, job_id, family, username, account, partition, name, display, state, outcome, started, ended, updated, core_secs, core_used, waste)
		VALUES ('c', %d, %[1]d, '%s', '%s', 'p', 'x', 'X', 'ended', 'finished', %d, %[4]d, 0, 36000, %f, %d)`, id, user, account, start.UnixMicro(), used*3600, int(3600*(10-used))))
}

// The first page of a user has the user's jobs alone: the week, what runs, the worst jobs and the accounts.
func TestHomeOfAUser(t *testing.T) {
	f := newFake(t)
	f.addRecent(t, 50, "alice", "chem", 1, 2)
	f.addRecent(t, 51, "alice", "chem", 8, 4)
	f.addRecent(t, 52, "bob", "chem", 1, 1)
	f.putLive(t, time.Now().Add(-time.Hour), time.Now().Add(-5*time.Minute))
	body := f.home(t, site.Reader{User: "alice"})
	since := time.Now().UTC().AddDate(0, 0, -6).Format(time.DateOnly)
	for _, want := range []string{"My week: core-hours</h2><span class=\"dim\">by the day a job began, UTC</span>", "jobs that ran in the last seven days", "jobs that began in the last seven days", `href="jobs?since=` + since + `&amp;user=alice">Jobs</a>`, "2.00 of 10.0 core-hours used</title>", "read 5 min ago", ">50</a>", "8.00 core-hours", `accounts?account=chem">chem</a>`, `<th scope="row">Waste</th><td class="n">8.00</td><td class="n">6.00</td><td class="n worse">&#43;33 %`} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q: %s", want, body)
		}
	}
	for _, text := range []string{"bob", ">52<", "The cluster now", "My part"} {
		if strings.Contains(body, text) {
			t.Errorf("the page has %q: %s", text, body)
		}
	}
	if body := f.home(t, site.Reader{User: "alice", Accounts: []string{"chem"}}); !strings.Contains(body, "My part") || !strings.Contains(body, `data-label="My part">50 %</td>`) {
		t.Errorf("a coordinator has no part of the account: %s", body)
	}
}

// Two periods of seven whole days are compared, without today and running jobs. What is not known is a dash.
func TestWeekComparesWholeDays(t *testing.T) {
	f := newFake(t)
	for id, days := range []int{-400, 0, 1, 7, 8, 14, 15} {
		f.addRecent(t, 50+id, "alice", "chem", days, 4)
	}
	f.addRecent(t, 60, "alice", "chem", 2, 4)
	f.query(t, "UPDATE job SET state = 'running' WHERE job_id = 60")
	today := time.Now().UTC().Truncate(24 * time.Hour)
	week := func() []change {
		r := request{Request: httptest.NewRequest(http.MethodGet, "/", nil)}
		v, err := f.pages().week(r, site.Filter{Users: []string{"alice"}}, today)
		if err != nil {
			t.Fatal(err)
		}
		return v.Changes
	}
	want := []change{{"Jobs", "2", "2", "+0 %", ""}, {"Core-hours used", "8.00", "8.00", "+0 %", ""}, {"Core-hours not used", "12.0", "12.0", "+0 %", ""}, {"Waste", "12.0", "12.0", "+0 %", ""}}
	if got := week(); !slices.Equal(got, want) {
		t.Errorf("the changes are %v, want %v", got, want)
	}
	f.query(t, "UPDATE job SET core_secs = NULL, core_used = NULL, waste = -1 WHERE job_id IN (52, 53)")
	want = []change{{"Jobs", "2", "2", "+0 %", ""}, {"Core-hours used", dash, "8.00", dash, ""}, {"Core-hours not used", dash, "12.0", dash, ""}, {"Waste", dash, "12.0", dash, ""}}
	if got := week(); !slices.Equal(got, want) {
		t.Errorf("without figures the changes are %v, want %v", got, want)
	}
}

// What to request is code, which a click selects.
func TestAdviceIsCode(t *testing.T) {
	var b strings.Builder
	page := homePage{Worst: []advisedJob{{Label: "7", Request: "--mem=1G", Advice: "time: <b>"}}}
	if err := templates.ExecuteTemplate(&b, "home.html.tmpl", frame{pages: newFake(t).pages(), Page: page}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "request <code>--mem=1G</code> time: &lt;b&gt;</p>") {
		t.Error(b.String())
	}
}

// Jobs that were killed come before those that waste most, each once.
func TestHomeOfKilledJobs(t *testing.T) {
	f := newFake(t)
	for id := 50; id < 54; id++ {
		f.addRecent(t, id, "alice", "chem", 1, float64(id-49))
	}
	f.query(t, "UPDATE job SET outcome = 'timeout' WHERE job_id = 52")
	f.query(t, "UPDATE job SET outcome = 'oom' WHERE job_id = 53")
	body := f.home(t, site.Reader{User: "alice"})
	at := -1
	for _, id := range []string{">53</a>", ">52</a>", ">50</a>"} {
		next := strings.Index(body, id)
		if next <= at || strings.Count(body, id) != 1 {
			t.Errorf("%s is not there once, or too early: %s", id, body)
		}
		at = next
	}
}

// A search that has not seen all jobs does not deny any.
func TestHomeOfAPart(t *testing.T) {
	f := newFake(t)
	f.crowd(t, 4001)
	f.addRecent(t, 50, "bob", "chem", 1, 10) // wastes least
	f.query(t, "INSERT INTO job (cluster, job_id, family, username, account, partition, name, display, state, outcome, started, updated) VALUES ('c', 60, 60, 'bob', '', '', 'x', 'x', 'running', '', 0, 0)")
	patient := f.pages()
	patient.searchTime = fileTime
	for p, isCut := range map[*Pages]bool{f.hurried(): true, patient: false} {
		_, body := bodyOf(p, "/", site.Reader{User: "bob"})
		for text, isWanted := range map[string]bool{
			"No running job was found so far": isCut, "No job with figures was found so far": isCut, ">60</a>": !isCut, ">50</a>": !isCut,
			"No job is running": false, "Nothing: no job": false,
		} {
			if strings.Contains(body, text) != isWanted {
				t.Errorf("cut %v: %q is wanted: %v: %s", isCut, text, isWanted, body)
			}
		}
		if n := strings.Count(body, ">continue it</a>"); (n == 2) != isCut {
			t.Errorf("cut %v: %d links: %s", isCut, n, body)
		}
		_, body = bodyOf(p, "/users", site.Reader{User: "bob"})
		isSaid := strings.Contains(body, "gives back most") && strings.Contains(body, ">continue it</a>") == isCut && strings.Contains(body, ">50</a>") != isCut
		if !isSaid {
			t.Errorf("cut %v, users: %s", isCut, body)
		}
	}
}

// An operator also sees what is reserved and idle now, and what to act on.
func TestHomeOfAnOperator(t *testing.T) {
	f := newFake(t)
	f.addRecent(t, 50, "alice", "chem", 1, 2)
	f.addRecent(t, 52, "bob", "chem", 1, 1)
	now := time.Now()
	f.putLive(t, now.Add(-time.Hour), now)
	state := site.NodeState{Node: "n9", Time: now, FailedDrains: rt.Some[int64](2)}
	if err := f.Nodes.Put(t.Context(), "o", state, now); err != nil {
		t.Fatal(err)
	}
	body := f.home(t, site.Reader{Operator: true})
	for _, want := range []string{"The site&#39;s week", "3.00 of 20.0 core-hours used", "75 %", "6 of 8 busy, 2 idle", "2 failed drains", "1 of 1", `users?user=bob">bob</a>`} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q: %s", want, body)
		}
	}
}
