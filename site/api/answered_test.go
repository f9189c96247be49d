package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestReporting(t *testing.T) {
	var got *Answered
	h := Reporting(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answeredOf(r).Sender = "alice"
		problems{func(error) {}}.failWith(w, r, refuse(http.StatusForbidden, "not you"))
	}), func(a *Answered) { got = a })
	for remote, want := range map[string][2]string{
		"192.0.2.7:80": {"192.0.2.7", "192.0.2.7"}, "[2001:db8::1:2]:80": {"2001:db8::1:2", "2001:db8::/64"}, "@": {"unix", "unix"},
	} {
		r := httptest.NewRequest("GET", "/v1/jobs?user=bob", nil)
		r.RemoteAddr = remote
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		isSame := got.Sender == "alice" && got.Status == 403 && got.Refusal == "not you" && got.Bytes == int64(w.Body.Len()) && got.URI == "/v1/jobs?user=bob"
		if !isSame || [2]string{got.Client, got.Network} != want {
			t.Errorf("%s: %+v", remote, got)
		}
	}
	cut := Reporting(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		panic(http.ErrAbortHandler)
	}), func(a *Answered) { got = a })
	func() {
		defer func() { _ = recover() }()
		cut.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("PUT", "/nodes", nil))
	}()
	if got.Method != "PUT" || got.Status != 0 {
		t.Errorf("a handler that panics: %+v", got)
	}
}

// No value of a parameter that may be a secret is reported.
func TestHarmlessURI(t *testing.T) {
	for uri, want := range map[string]string{
		"/v1/jobs?user=a&cursor=1.2.&limit=5":          "/v1/jobs?user=a&cursor=1.2.&limit=5",
		"/job?cluster=c&id=7":                          "/job?cluster=c&id=7",
		"/v1/jobs?token=secret&user=a":                 "/v1/jobs?...&user=a",
		"/rt/runs/x?X-Amz-Signature=secret&X-Amz-Date": "/rt/runs/x?...&...",
		"/?secret":                      "/?...",
		"/a%0ab%22?user=%0a":            "/a%0ab%22?user=%0a",
		"/" + strings.Repeat("x", 2000): "/" + strings.Repeat("x", maxURI-1) + "...",
	} {
		if got := harmlessURI(httptest.NewRequest("GET", uri, nil).URL); got != want {
			t.Errorf("%s: %q, want %q", uri, got, want)
		}
	}
}
