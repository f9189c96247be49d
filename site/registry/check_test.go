package registry

import (
	"slices"
	"strings"
	"testing"
)

// Check finds rows that do not agree with each other, on both databases, and nothing else.
func TestCheck(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		for i := range 3 {
			run := putRun(t, r, i, job(uint64(i), i))
			put(t, r, csv(run, "1", "1"), []byte("x"), nil)
		}
		problems, err := r.Check(t.Context())
		is(t, "Check", err, nil)
		same(t, "problems", problems, []string{})
		for _, query := range []string{
			"DELETE FROM job WHERE job_id = 1", "UPDATE disk_use SET bytes = bytes + 1 WHERE owner = 'owner'",
			"DELETE FROM object WHERE run_id IN (SELECT id FROM run WHERE job_id = 2)", "DELETE FROM run WHERE job_id = 2",
		} {
			is(t, query, r.db.change(t.Context(), query, func(tx transaction) error {
				_, err := tx.ExecContext(t.Context(), query)
				return err
			}), nil)
		}
		problems, err = r.Check(t.Context())
		is(t, "Check", err, nil)
		want := []string{"has no job", "has no run", "is wrong: owner \"\" has ", "is wrong: owner \"owner\" has "}
		for _, part := range want {
			if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, part) }) {
				t.Errorf("%q has no %q", problems, part)
			}
		}
		same(t, "number of problems", len(problems), len(want))
	})
}
