package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/site"
)

// as sends one request with a token.
func as(t *testing.T, s http.Handler, token, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

const emptyFinish = `{"run_status":"finished","data_source":"inline","data_csv":"a\n"}`

// A token reads and writes the runs of its owner only.
func TestRunsOfOtherOwners(t *testing.T) {
	s := newServer(t, Config{})
	g := register(t, s)
	for path, body := range map[string]string{"refresh-credentials": "", "finish": emptyFinish} {
		status, answer := as(t, s, "another", "/runs/"+g.RunID+"/"+path, body)
		if status != http.StatusForbidden || strings.Contains(answer, "secret_key") || !strings.Contains(answer, "token file") {
			t.Errorf("%s by another token: %d %s", path, status, answer)
		}
	}
	get := func(token, path string) (int, string) {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, path := range []string{"", "/data"} {
		if status, answer := get("another", "/runs/"+g.RunID+path); status != http.StatusForbidden || strings.Contains(answer, "metadata") {
			t.Errorf("GET %s by another token: %d %s", path, status, answer)
		}
		if status, answer := get(token, "/runs/"+g.RunID+path); status != http.StatusOK {
			t.Errorf("GET %s by the owner: %d %s", path, status, answer)
		}
	}
	for by, isListed := range map[string]bool{"another": false, token: true} {
		if status, answer := get(by, "/runs"); status != http.StatusOK || strings.Contains(answer, g.RunID) != isListed {
			t.Errorf("GET /runs: listed %t, %d %s", !isListed, status, answer)
		}
	}
	if runOfID(t, s, g.RunID).Finish != nil {
		t.Error("finished")
	}
	for path, body := range map[string]string{"refresh-credentials": "", "finish": emptyFinish} {
		if status, answer := as(t, s, token, "/runs/"+g.RunID+"/"+path, body); status != http.StatusOK {
			t.Errorf("%s by the owner: %d %s", path, status, answer)
		}
	}
}

// A token that replaces another one goes on with its runs if it has the same name. A token without a name
// is replaced by one with the name in the refusal.
func TestTokensThatReplaceOthers(t *testing.T) {
	for name, ofOld := range map[string]string{"named": "node-7", "without a name": ""} {
		s := newServer(t, Config{})
		s.SetTokens([]Token{{Hash: site.HashToken(token), Name: ofOld}})
		g := register(t, s)
		s.SetTokens([]Token{{Hash: site.HashToken("new"), Name: "other"}})
		refresh := "/runs/" + g.RunID + "/refresh-credentials"
		status, refusal := as(t, s, "new", refresh, "")
		_, rest, _ := strings.Cut(refusal, "write the name ")
		owner, _, _ := strings.Cut(rest, " ")
		if status != http.StatusForbidden || ofOld != "" && owner != ofOld {
			t.Errorf("%s: %d %s", name, status, refusal)
		}
		tokens, err := ParseTokens([]byte("new " + owner))
		if err != nil {
			t.Fatal(err)
		}
		s.SetTokens(tokens)
		for path, body := range map[string]string{refresh: "", "/runs/" + g.RunID + "/finish": emptyFinish} {
			if status, answer := as(t, s, "new", path, body); status != http.StatusOK {
				t.Errorf("%s: %s: %d %s", name, path, status, answer)
			}
		}
		u := signedPut{g: g, path: "/rt/runs/" + g.RunID + "/run.rtrec", body: []byte("{}")}
		if status, answer := put(t, s, u); status != http.StatusOK {
			t.Errorf("%s: an upload of the same owner: %d %s", name, status, answer)
		}
	}
}

// The credentials for uploads end with the token for which they were issued.
func TestCredentialsOfAWithdrawnToken(t *testing.T) {
	s := newServer(t, Config{})
	u := signedPut{g: register(t, s), body: packed(t, "a\n")}
	u.path = "/rt/runs/" + u.g.RunID + "/1"
	for _, step := range []struct {
		token string
		want  int
	}{{token, 200}, {"new", 403}, {token, 200}} {
		s.SetTokens(tokensOf(step.token))
		status, answer := put(t, s, u)
		if isRefused := strings.Contains(answer, "InvalidToken"); status != step.want || isRefused != (step.want == 403) {
			t.Errorf("%s: %d %s", step.token, status, answer)
		}
	}
}
