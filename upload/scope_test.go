package upload_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/upload"
)

// A site changes drain.scope between two uploads of a tracked run. The run keeps the scope of its
// first registration, also when it is registered again. What is sent again has the same bytes.
func TestARunKeepsItsScope(t *testing.T) {
	whole := newRun(1, 40)
	want := map[rt.Scope][]string{} // the bodies of a run with an unchanged scope
	for _, scope := range []rt.Scope{rt.ScopeJob, rt.ScopeNode} {
		c := &fakeClient{}
		r := &fakeRun{run: whole.run, snaps: whole.snaps}
		if _, err := drain(t, dirOf(r), c, upload.DrainOptions{BatchRows: 10, Scope: scope}); err != nil {
			t.Fatal(err)
		}
		want[scope] = bodies(t, c, r)
	}
	if slices.Equal(want[rt.ScopeJob], want[rt.ScopeNode]) {
		t.Fatal("both scopes have the same rows, nothing can be seen")
	}
	for name, forget := range map[string]bool{"kept": false, "forgotten": true} {
		c := &fakeClient{}
		r := &fakeRun{run: whole.run, snaps: whole.snaps[:11]}
		dir := dirOf(r)
		for i, scope := range []rt.Scope{rt.ScopeNode, rt.ScopeJob, rt.ScopeJob} {
			r.snaps = whole.snaps[:min(11+10*i, len(whole.snaps))]
			if _, err := upload.Drain(t.Context(), liveDir{dir}, c, c, upload.DrainOptions{BatchRows: 10, Scope: scope, Live: true}); err != nil {
				t.Fatal(err)
			}
		}
		if forget {
			c.forget()
		}
		r.snaps = whole.snaps
		if _, err := drain(t, dir, c, upload.DrainOptions{BatchRows: 10, Scope: rt.ScopeJob}); err != nil {
			t.Fatal(err)
		}
		if got := bodies(t, c, r); !slices.Equal(got, want[rt.ScopeNode]) {
			t.Errorf("%s: batches of the scopes job and node are in one run: %q, want %q", name, got, want[rt.ScopeNode])
		}
		for _, e := range r.events {
			if e.Status == "resealed" {
				t.Errorf("%s: %s", name, e.Detail)
			}
		}
	}
}

// bodies are the rows of each of a run's batches as the store has them.
func bodies(t *testing.T, c *fakeClient, r *fakeRun) (list []string) {
	t.Helper()
	for _, b := range r.batches {
		_, rows, _ := strings.Cut(text(t, c.objects[b.Key]), "\n")
		list = append(list, rows)
	}
	return list
}
