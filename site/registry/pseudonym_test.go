package registry

import (
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// Users see and find the runs under their pseudonyms, and no other ones.
func TestPseudonymsOfUsers(t *testing.T) {
	o := Config{Pseudonym: func(user string) string { return "user-" + user }}
	each(t, o, func(t *testing.T, r *Registry, _ func() *Registry) {
		for n, user := range []string{"alice", "user-alice", "bob", "user-bob", ""} {
			record := job(uint64(n+1), n)
			record.User = user
			putRun(t, r, n, record)
		}
		alice := &site.Access{Users: []string{"alice"}}
		coordinator := &site.Access{Users: []string{"alice"}, Accounts: []string{"physics"}}
		for _, c := range []struct {
			name   string
			filter site.Filter
			want   []uint64
		}{
			{"user", site.Filter{Access: alice}, []uint64{2, 1}},
			{"user, by name", site.Filter{Access: alice, Users: []string{"alice"}}, []uint64{2, 1}},
			{"user, another name", site.Filter{Access: alice, Users: []string{"bob"}}, nil},
			{"user, a job", site.Filter{Access: alice, JobID: rt.Some[uint64](2)}, []uint64{2}},
			{"operator", site.Filter{Users: []string{"bob"}}, []uint64{4, 3}},
			{"operator, pseudonym", site.Filter{Users: []string{"user-bob"}}, []uint64{4}},
			{"coordinator", site.Filter{Access: coordinator}, []uint64{5, 4, 3, 2, 1}},
			{"coordinator, another user", site.Filter{Access: coordinator, Users: []string{"bob"}}, []uint64{3}},
			{"no one", site.Filter{Access: &site.Access{}}, nil},
			{"no name", site.Filter{Access: &site.Access{Users: []string{""}}}, nil},
		} {
			same(t, c.name, pages(t, r, c.filter, 2), c.want)
		}
		jobs, _, err := r.Jobs.List(t.Context(), site.Filter{JobID: rt.Some[uint64](2)}, "", 1)
		is(t, "Jobs", err, nil)
		runs := jobRuns(t, r, jobs[0], alice)
		same(t, "runs", len(runs), 1)
		_, err = r.Visible.Get(t.Context(), runs[0].ID, alice)
		is(t, "own run", err, nil)
		_, err = r.Visible.Get(t.Context(), runs[0].ID, &site.Access{Users: []string{"bob"}})
		is(t, "run of another user", err, site.ErrNotFound)
	})
}
