package registry

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt/site"
)

// Without statistics SQLite prefers an index by class to the primary key of the objects. These queries are
// about one run: they must not read the objects of all runs.
func TestQueriesOfARunReadItsObjectsOnly(t *testing.T) {
	r, err := Open(t.Context(), filepath.Join(t.TempDir(), "registry.db"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, query := range []string{
		"SELECT r.id, r.metadata" + heldColumns + " FROM run r WHERE r.id = 'x'",
		deleteExpired,
		namesOfRun,
	} {
		plans, err := collect(t.Context(), r.db.read, func(scan scanFunc) (plan string, err error) {
			return plan, scan(new(int), new(int), new(int), &plan)
		}, "EXPLAIN QUERY PLAN "+query, "id", "csv", 5)
		if err != nil || len(plans) == 0 {
			t.Fatalf("%s: %q, %v", query, plans, err)
		}
		for _, plan := range plans {
			if strings.Contains(plan, "object_age") || strings.HasPrefix(plan, "SCAN") {
				t.Errorf("%s: %s", query, plan)
			}
		}
	}
}

// The runs of no job are found by an index of their own: a site has a million others.
func TestUnassignedRunsHaveAnIndex(t *testing.T) {
	r, err := Open(t.Context(), filepath.Join(t.TempDir(), "registry.db"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, before := range []string{"", "x"} {
		query, args := unassigned(before, 5)
		plans, err := collect(t.Context(), r.db.read, func(scan scanFunc) (plan string, err error) {
			return plan, scan(new(int), new(int), new(int), &plan)
		}, "EXPLAIN QUERY PLAN "+query, args...)
		if err != nil || !strings.Contains(strings.Join(plans, "\n"), "run_unassigned") {
			t.Errorf("%q, %v", plans, err)
		}
	}
}

// Sums read the jobs of the time that is asked for, and no others in the index of a user or account.
func TestSumsReadTheJobsOfTheirTime(t *testing.T) {
	r, err := Open(t.Context(), filepath.Join(t.TempDir(), "registry.db"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, by := range []site.Group{site.ByUser, site.ByAccount, site.ByPartition, site.ByWeek, site.ByDay, site.ByWeekAndPartition} {
		query, args, err := totalsQuery(site.Filter{Since: time.Unix(1, 0)}, by, 5)
		if err != nil {
			t.Fatal(err)
		}
		plans, err := collect(t.Context(), r.db.read, func(scan scanFunc) (plan string, err error) {
			return plan, scan(new(int), new(int), new(int), &plan)
		}, "EXPLAIN QUERY PLAN "+query, args...)
		if err != nil || !strings.Contains(strings.Join(plans, "\n"), "job_list (started>?") {
			t.Errorf("by %s: %q, %v", by, plans, err)
		}
	}
}
