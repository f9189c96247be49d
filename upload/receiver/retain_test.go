package receiver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"
)

// TestListHasPages reads a list page by page, as the header Link says.
func TestListHasPages(t *testing.T) {
	rc := newReceiver(t, Config{})
	var want []string
	for range 7 {
		want = append(want, register(t, rc).RunID)
	}
	if err := os.Mkdir(filepath.Join(rc.store.dir, "runs", "20260301t120000-abcdefghijklmnopqrstuvwxyz"), 0o700); err != nil {
		t.Fatal(err) // a registration that was cut short
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
			rc.ServeHTTP(w, r)
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
	for _, bad := range []string{"0", "-1", "x", "10001"} {
		if status, _ := api(t, rc, "GET", "/runs?limit="+bad, ""); status != http.StatusBadRequest {
			t.Errorf("limit=%s: %d", bad, status)
		}
	}
}

// TestOldRunsAreRemoved: what counts is the last that happened to a run.
func TestOldRunsAreRemoved(t *testing.T) {
	rc := newReceiver(t, Config{})
	age := func(id string, names ...string) {
		for _, name := range names {
			if err := os.Chtimes(filepath.Join(rc.store.runDir(id), name), time.Time{}, time.Now().Add(-48*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Ids begin with the time of the registration: these were registered two days ago.
	old := func() string {
		id := register(t, rc).RunID
		earlier := time.Now().Add(-48*time.Hour).UTC().Format("20060102t150405") + id[15:]
		if err := os.Rename(rc.store.runDir(id), rc.store.runDir(earlier)); err != nil {
			t.Fatal(err)
		}
		return earlier
	}
	gone, uploaded, finished, young := old(), old(), old(), register(t, rc).RunID
	age(gone, "run.json", ".")
	if err := os.Mkdir(filepath.Join(rc.store.runDir(uploaded), "objects"), 0o700); err != nil {
		t.Fatal(err)
	}
	age(uploaded, "run.json", ".")
	age(finished, ".")
	age(young, "run.json", ".")
	removed, err := rc.sweep(t.Context(), time.Now().Add(-24*time.Hour))
	if err != nil || removed != 1 {
		t.Errorf("%d removed, %v", removed, err)
	}
	if left, err := os.ReadDir(filepath.Join(rc.store.dir, "journal")); err != nil || len(left) != 0 {
		t.Errorf("a start after a crash would make what was removed again, of %d segments, %v", len(left), err)
	}
	ids, _, err := rc.store.ids("", 100)
	want := []string{uploaded, finished, young}
	slices.Sort(want)
	if err != nil || !slices.Equal(ids, want) {
		t.Errorf("left: %q, %v, not %q", ids, err, want)
	}
	if left, err := os.ReadDir(filepath.Join(rc.store.dir, "tmp")); err != nil || len(left) != 0 {
		t.Errorf("in tmp: %v, %v", left, err)
	}
}

func TestTokensAreReplaced(t *testing.T) {
	rc := newReceiver(t, Config{})
	rc.SetTokens([]TokenHash{HashToken("new")})
	if status, _ := api(t, rc, "GET", "/runs", ""); status != http.StatusUnauthorized {
		t.Errorf("a token that was withdrawn: %d", status)
	}
	rc.SetTokens([]TokenHash{HashToken(token)})
	if status, _ := api(t, rc, "GET", "/runs", ""); status != http.StatusOK {
		t.Errorf("a new token: %d", status)
	}
}
