package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// The token of a user is for runs of this user: of steps, or outside a scheduler.
func TestTokensOfUsers(t *testing.T) {
	s := newServer(t, Config{})
	s.SetTokens([]Token{{Hash: site.HashToken(token), User: "alice"}, {Hash: site.HashToken("nodes")}})
	status, registered := as(t, s, token, "/runs", "{}")
	if status != http.StatusCreated || strings.Contains(registered, "rt.node") || !strings.Contains(registered, "rt.record") {
		t.Fatal(status, registered)
	}
	for record, want := range map[string]int{
		`{"user":"alice","job_id":9,"step":"0","account":"physics"}`: 200,
		`{"user":"alice"}`:                                    200,
		`{"user":"alice","job_id":9}`:                         400,
		`{"user":"alice","array_job_id":9,"array_task_id":1}`: 400,
		`{"user":"alice","het_job_id":9}`:                     400,
		`{"user":"bob","job_id":9,"step":"0"}`:                400,
		`{"user":"bob"}`:                                      400,
		`{"user":"","job_id":9,"step":"0"}`:                   400,
		`{"job_id":9,"step":"0"}`:                             400,
	} {
		g := register(t, s)
		status, answer := put(t, s, signedPut{g: g, path: "/rt/runs/" + g.RunID + "/run.rtrec", body: []byte(record)})
		if status != want {
			t.Errorf("%s: %d %s", record, status, answer)
		}
		run := runOfID(t, s, g.RunID)
		isStored := run.Record != nil
		if isStored != (want == 200) || isStored && run.Record.Account != "" || !strings.HasPrefix(run.Owner, "user:") {
			t.Errorf("%s: %+v", record, run)
		}
		if strings.Contains(run.Owner, "alice") {
			t.Errorf("the owner names the user: %s", run.Owner)
		}
	}
	r := httptest.NewRequest(http.MethodPut, "/nodes", strings.NewReader(`{}`))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Errorf("the report of a node: %d %s", w.Code, w.Body)
	}
}

// All tokens of a user have the same owner, and no token of nodes has it.
func TestOwnersOfUsers(t *testing.T) {
	s := newServer(t, Config{})
	owners := map[string]string{}
	for _, token := range []Token{{Hash: site.HashToken("1"), User: "alice"}, {Hash: site.HashToken("2"), User: "alice"}, {Hash: site.HashToken("3"), User: "bob"}, {Hash: site.HashToken("4"), Name: "alice"}, {Hash: site.HashToken("1")}} {
		owners[fmt.Sprintf("%s %s %x", token.User, token.Name, token.Hash[0])] = s.owners.keys.owner(token)
	}
	different := map[string]bool{}
	for _, owner := range owners {
		different[owner] = true
	}
	if len(owners) != 5 || len(different) != 4 {
		t.Errorf("%v", owners)
	}
}

// A job in a list has its generation, Slurm's own state and the suspended time. A run says whether a user's token
// registered it.
func TestFieldsOfRows(t *testing.T) {
	of := func(v any) string {
		text, err := site.EncodeJSON(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	job := site.JobRow{JobID: 9, Generation: 2, SlurmState: "PREEMPTED", SuspendedSecs: rt.Some(7.5)}
	text := of((&listWriter{}).viewOf(job, nil))
	for _, want := range []string{`"generation":2`, `"slurm_state":"PREEMPTED"`, `"suspended_secs":7.5`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if text := of((&listWriter{}).viewOf(site.JobRow{Generation: 1}, nil)); !strings.Contains(text, `"slurm_state":null,"suspended_secs":null`) {
		t.Error(text)
	}
	for owner, want := range map[string]string{site.OwnerOfUser("x"): `"from_user":true`, "nodes": `"from_user":false`} {
		if text := of(viewOfRun(site.StoredRun{Owner: owner})); !strings.Contains(text, want) {
			t.Errorf("%s: %s", owner, text)
		}
	}
}
