package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/runtest"
	rtreport "github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site/registry"
)

// The kinds of job of a user have what their next jobs could request less. Other users do not see them. Old and running
// jobs do not count.
func TestAdviceInTheAPI(t *testing.T) {
	dir, spools := t.TempDir(), t.TempDir()
	r, err := registry.Open(t.Context(), filepath.Join(dir, "registry.db"), registry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	first, _ := runtest.Job()
	now := int(time.Since(first.Start).Hours()) // storeRun adds as many hours
	for i, n := range []int{1, now - 9, now - 8, now - 7, now - 6, now - 5} {
		if err := storeJob(t.Context(), spools, r, n, func(run *rt.Run) {
			run.User, run.Account, run.Partition, run.Meta.JobName, run.WorkDir, run.AllocMem = "alice", "chem", "batch", "relax", "/home/alice", rt.Some[uint64](200<<30)
			run.JobStart, run.JobEndLimit = run.Start, run.Start.Add(24*time.Hour)
			if i == 5 {
				run.User = "bob"
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	base := servePages(t, dir)
	_, _, text := getPage(t, base+"/v1/openapi.json", "")
	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		status, kinds, jobs int
	}{
		"page-alice ": {200, 1, 4}, "page-alice ?user=alice": {200, 1, 4}, "page-bob ": {200, 1, 1}, "page-bob ?user=alice": {200, 0, 0},
		"page-all ?user=alice": {200, 1, 4}, "page-all ": {400, 0, 0}, "page-alice ?user=": {400, 0, 0}, "page-alice ?since=2026-01-01T00:00:00Z": {400, 0, 0},
	} {
		token, query, _ := strings.Cut(path, " ")
		status, _, body := getPage(t, base+"/v1/advice"+query, token)
		var answer struct{ Kinds []rtreport.Kind }
		if err := json.Unmarshal([]byte(body), &answer); err != nil || status != want.status || len(answer.Kinds) != want.kinds {
			t.Errorf("%s: %d %v %s", path, status, err, body)
			continue
		}
		if len(answer.Kinds) == 0 {
			continue
		}
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatal(err)
		}
		if err := (schemas{doc}).check(map[string]any{"$ref": "#/components/schemas/Kinds"}, v, "answer"); err != nil {
			t.Error(err)
		}
		k := &answer.Kinds[0]
		hasTime := slices.ContainsFunc(k.Requests, func(text string) bool { return strings.HasPrefix(text, "--time=00:") })
		if k.Jobs != want.jobs || k.Name != "relax" || k.WorkDir != "/home/alice" || k.LimitSecs != rt.Some(86400.0) || !hasTime || k.WasteHours.Or(0) <= 0 {
			t.Errorf("%s: %+v", path, k)
		}
	}
}
