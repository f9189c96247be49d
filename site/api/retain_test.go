package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt/site"
)

// TestListHasPages reads a list page by page, as the header Link says.
func TestListHasPages(t *testing.T) {
	s := newServer(t, Config{})
	var want []string
	for range 7 {
		want = append(want, register(t, s).RunID)
	}
	slices.Sort(want)
	next := regexp.MustCompile(`^<(.*)>; rel="next"$`)
	for _, limit := range []int{1, 3, 7, 8} {
		var got []string
		pages := 0
		for path := fmt.Sprintf("/runs?limit=%d", limit); path != ""; pages++ {
			r := httptest.NewRequest("GET", path, nil)
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			var page []struct{ ID string }
			if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page) > limit {
				t.Fatalf("%s: %d runs, %v", path, len(page), err)
			}
			for _, run := range page {
				got = append(got, run.ID)
			}
			path = ""
			if m := next.FindStringSubmatch(w.Header().Get("Link")); m != nil {
				path = m[1]
			}
		}
		if !slices.Equal(got, want) || pages != (7+limit-1)/limit {
			t.Errorf("limit %d: %d pages, %q", limit, pages, got)
		}
	}
	for _, bad := range []string{"limit=0", "limit=-1", "limit=x", "limit=10001", "after=%00", "after=%ff", "after=A", "after=" + strings.Repeat("a", 65)} {
		if status, _ := api(t, s, "GET", "/runs?"+bad, ""); status != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, status)
		}
	}
}

// TestOldRunsAreRemoved: the last change of a run counts. Its objects go with it.
func TestOldRunsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{CredentialLife: 720 * time.Hour})
		m := memoryOf(s)
		put := func(g grant) {
			t.Helper()
			if status, answer := put(t, s, signedPut{g: g, path: "/rt/runs/" + g.RunID + "/1", body: packed(t, "a\n"+incompressible()+"\n")}); status != 200 {
				t.Fatal(status, answer)
			}
		}
		var old []grant
		for range expireBatch + 10 {
			old = append(old, register(t, s))
		}
		put(old[0])
		uploaded := register(t, s)
		put(uploaded)
		time.Sleep(47 * time.Hour)
		put(uploaded)
		young := register(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Retain(ctx, Ages{Runs: 48 * time.Hour}) }()
		synctest.Wait()
		if m.query(t, "SELECT count(*) FROM run") != len(old)+2 {
			t.Errorf("%d runs after 47 hours", m.query(t, "SELECT count(*) FROM run"))
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		ids, err := s.conf.Registry.Runs.IDs(ctx, "", 1000)
		want := []string{uploaded.RunID, young.RunID}
		slices.Sort(want)
		if err != nil || !slices.Equal(ids, want) || m.objects() != 1 {
			t.Errorf("left: %q, not %q; %d objects; %v", ids, want, m.objects(), err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Records and rows can be removed before their run. The number of the rows is then not known.
func TestOldRecordsAndRowsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{})
		csv := "a\n" + incompressible() + "\n"
		ended, delivering := registered(t, s, 0), register(t, s)
		if status, answer := finishInline(t, s, ended, csv); status != 200 {
			t.Fatal(status, answer)
		}
		if status, answer := put(t, s, signedPut{g: delivering, path: "/rt/runs/" + delivering.RunID + "/1", body: packed(t, csv)}); status != 200 {
			t.Fatal(status, answer)
		}
		time.Sleep(47 * time.Hour)
		ages := Ages{CSV: 48 * time.Hour, Records: time.Hour}
		if err := s.retention.expireAll(t.Context(), ages, time.Now()); err != nil {
			t.Fatal(err)
		}
		wantRows(t, s, ended, csv)
		time.Sleep(2 * time.Hour)
		if err := s.retention.expireAll(t.Context(), ages, time.Now()); err != nil {
			t.Fatal(err)
		}
		if status, body := api(t, s, "GET", "/runs/"+ended+"/data", ""); status != http.StatusGone || !strings.Contains(body, "serve.retain_csv") {
			t.Errorf("%d %s", status, body)
		}
		if _, body := api(t, s, "GET", "/runs/"+ended, ""); !strings.Contains(body, `"expired":["inline"]`) || !strings.Contains(body, `"rows":null`) {
			t.Errorf("%s", body)
		}
		wantRows(t, s, delivering.RunID, csv)
		if n := memoryOf(s).objects(); n != 1 {
			t.Errorf("%d objects", n)
		}
		if status, answer := finishInline(t, s, ended, csv); status != 200 { // the client has lost the answer
			t.Error(status, answer)
		}
	})
}

// What a request has put into the object store, and no row names, is removed after a day. Objects of
// others stay.
func TestUnusedObjectsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var faults []error
		s := newServer(t, Config{Fault: func(err error) { faults = append(faults, err) }})
		m := memoryOf(s)
		g := register(t, s)
		u := signedPut{g: g, path: "/rt/runs/" + g.RunID + "/1", body: packed(t, "a\n"+incompressible()+"\n")}
		if status, answer := put(t, s, u); status != 200 {
			t.Fatal(status, answer)
		}
		m.refuse(t, "INSERT ON object")
		u.path += "2"
		if status, answer := put(t, s, u); status != 500 {
			t.Fatal(status, answer)
		}
		m.accept(t)
		m.store["notes/of/another.txt"] = stored{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Retain(ctx, Ages{}) }()
		time.Sleep(23 * time.Hour)
		synctest.Wait()
		if m.objects() != 3 { // the row may be on its way
			t.Errorf("%d objects after 23 hours", m.objects())
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if m.objects() != 2 || len(faults) != 1 {
			t.Errorf("%d objects after 26 hours; %v", m.objects(), faults)
		}
		if status, _ := api(t, s, "GET", "/runs/"+g.RunID+"/data", ""); status != 200 {
			t.Errorf("the object that a row names: %d", status)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestTokensAreReplaced(t *testing.T) {
	s := newServer(t, Config{})
	s.SetTokens(tokensOf("new"))
	if status, _ := api(t, s, "GET", "/runs", ""); status != http.StatusUnauthorized {
		t.Errorf("a token that was withdrawn: %d", status)
	}
	s.SetTokens(tokensOf(token))
	if status, _ := api(t, s, "GET", "/runs", ""); status != http.StatusOK {
		t.Errorf("a new token: %d", status)
	}
}

// Upkeep removes the sessions that have expired, and no others.
func TestSessionsExpire(t *testing.T) {
	s := newServer(t, Config{})
	now := time.Now()
	for id, life := range map[string]time.Duration{"old": -time.Second, "valid": time.Hour} {
		session := site.Session{ID: id, Kind: site.SessionBrowser, User: "alice", Created: now.Add(-time.Hour), Expires: now.Add(life)}
		if err := s.conf.Registry.Sessions.Add(t.Context(), session, site.HashToken(id)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.retention.maintain(t.Context(), Ages{}, false); err != nil {
		t.Fatal(err)
	}
	left, err := s.conf.Registry.Sessions.List(t.Context(), "", now.Add(-time.Minute))
	if err != nil || len(left) != 1 || left[0].ID != "valid" {
		t.Errorf("%+v, %v", left, err)
	}
}
