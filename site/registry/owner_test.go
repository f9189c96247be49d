package registry

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// sent is a run that an owner sends.
type sent struct {
	owner string
	edit  func(*rt.Run)
}

// deliver stores runs of job 9, and returns the jobs of the registry: owner, user, account, name, state and outcome.
func deliver(t *testing.T, r *Registry, from int, list []sent) string {
	t.Helper()
	for n, one := range list {
		run := site.StoredRun{ID: fmt.Sprintf("20260301t130000-%026d", from+n), Owner: one.owner, Created: start}
		is(t, "CreateRun", r.Runs.Create(t.Context(), run), nil)
		record := job(9, 0)
		if one.edit != nil {
			one.edit(&record)
		}
		put(t, r, site.Object{RunID: run.ID, Name: site.RecordName, Class: site.ClassRecord, SHA256: "r", Created: start}, []byte("r"), &record)
		finish := site.Finish{DataSource: "inline", Summary: []byte(`{"allocated_core_secs":100,"used_core_secs":10}`)}
		_, err := r.Runs.Finish(t.Context(), run.ID, finish, nil, nil)
		is(t, "FinishRun", err, nil)
	}
	return rowsOfJobs(t, r)
}

func rowsOfJobs(t *testing.T, r *Registry) string {
	t.Helper()
	list, err := collect(t.Context(), r.db.read, scanText, "SELECT owner || ' ' || username || ' ' || account || ' ' || name || ' ' || state || ' ' || outcome FROM job ORDER BY job_id, generation")
	is(t, "job", err, nil)
	return strings.Join(list, ", ")
}

// stepOf makes a run one of a step, as the token of a user sends it.
func stepOf(user string, outcome rt.Outcome) func(*rt.Run) {
	return func(r *rt.Run) {
		r.User, r.Account, r.Step, r.Meta.JobName, r.Outcome = user, "", "0", "forged", outcome
	}
}

// What another owner sends never replaces or describes a job, whichever comes first.
func TestOtherOwnersDescribeNoJob(t *testing.T) {
	const mallory, alice = "user:mallory", "user:alice"
	own := sent{"nodes", nil}
	without := func(field func(*rt.Run) *string) sent {
		return sent{"nodes", func(r *rt.Run) { *field(r) = "" }}
	}
	user, account := func(r *rt.Run) *string { return &r.User }, func(r *rt.Run) *string { return &r.Account }
	whole := func(who string) func(*rt.Run) {
		return func(r *rt.Run) {
			r.User, r.Account, r.Outcome, r.OutcomeSource, r.Meta.JobName = who, "evil", rt.OutcomeOOM, "sacct", "forged"
		}
	}
	for name, c := range map[string]struct {
		list []sent
		want string // the row of the job of the nodes
	}{
		"a step of another user":                     {[]sent{own, {mallory, stepOf("mallory", rt.OutcomeOOM)}}, "nodes alice physics train_model ended finished"},
		"a step of the user":                         {[]sent{own, {alice, stepOf("alice", rt.OutcomeOOM)}}, "nodes alice physics train_model ended finished"},
		"a job without a user":                       {[]sent{without(user), {mallory, stepOf("mallory", rt.OutcomeOOM)}}, "nodes  physics train_model ended finished"},
		"a job without an account":                   {[]sent{without(account), {alice, stepOf("alice", rt.OutcomeOOM)}}, "nodes alice  train_model ended finished"},
		"the whole job, of other nodes":              {[]sent{own, {"others", whole("alice")}}, "nodes alice physics train_model ended finished"},
		"the whole job of another user, other nodes": {[]sent{own, {"others", whole("mallory")}}, "nodes alice physics train_model ended finished"},
		"a job without a user, other nodes":          {[]sent{without(user), {"others", whole("mallory")}}, "nodes  physics train_model ended finished"},
		"a job without an account, other nodes":      {[]sent{without(account), {"others", whole("alice")}}, "nodes alice  train_model ended finished"},
		"a running step":                             {[]sent{own, {alice, func(r *rt.Run) { stepOf("alice", "")(r); r.State = rt.StateRunning }}}, "nodes alice physics train_model ended finished"},
	} {
		for _, isReversed := range []bool{false, true} {
			each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
				list := slices.Clone(c.list)
				if isReversed {
					slices.Reverse(list)
				}
				got := deliver(t, r, 0, list)
				if !slices.Contains(strings.Split(got, ", "), c.want) || strings.Count(got, "nodes ") != 1 {
					t.Errorf("%s, reversed %t: %s", name, isReversed, got)
				}
				jobs, _, err := r.Jobs.List(t.Context(), site.Filter{Access: &site.Access{Users: []string{"mallory"}, Accounts: []string{"evil"}}}, "", 10)
				is(t, "Jobs", err, nil)
				for _, j := range jobs {
					if j.Owner == "nodes" {
						t.Errorf("%s, reversed %t: the other reader sees %+v", name, isReversed, j)
					}
				}
			})
		}
	}
}

// The nodes become the owner of a job whose user has sent steps before. If their runs are gone, it is the user's again.
func TestTheNodesAreTheOwnerOfAJob(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		steps := []sent{{"user:alice", stepOf("alice", rt.OutcomeOOM)}}
		same(t, "a step", deliver(t, r, 0, steps), "user:alice alice  forged ended oom")
		same(t, "the job", deliver(t, r, 1, []sent{{"nodes", nil}}), "nodes alice physics train_model ended finished")
		same(t, "another step", deliver(t, r, 2, steps), "nodes alice physics train_model ended finished")
		is(t, "RemoveRun", r.Removals.RemoveRun(t.Context(), fmt.Sprintf("20260301t130000-%026d", 1)), nil)
		same(t, "the job is removed", rowsOfJobs(t, r), "user:alice alice  forged ended oom")
		problems, err := r.Check(t.Context())
		is(t, "Check", err, nil)
		same(t, "problems", problems, []string{})
	})
}

// The lake has the runs of nodes, and of two with the same name the first owner's.
func TestTheLakeHasTheRunsOfNodes(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		deliver(t, r, 0, []sent{{"user:alice", stepOf("alice", "")}, {"nodes", nil}, {"others", nil}, {"nodes", nil}})
		changed, err := r.Lake.ChangedRuns(t.Context(), site.Changed{}, 10)
		is(t, "Changed", err, nil)
		var ids []string
		for _, c := range changed {
			ids = append(ids, strings.TrimLeft(c.ID[16:], "0"))
		}
		same(t, "runs", ids, []string{"1", "3"})
	})
}
