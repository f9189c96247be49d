package sentinel

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/upload"
)

// Only a receiver that announces rt.node in the dialect of the specification takes reports.
func TestTakesNodes(t *testing.T) {
	for list, want := range map[string]bool{`{"rt.node":1,"rt.record":1}`: true, `{"rt.node":2}`: false, `{"rt.record":1}`: false, `{}`: false} {
		for _, dialect := range []string{upload.DialectSpec, upload.DialectLive} {
			c, _ := newClient(t, dialect, always(201, `{"extensions":`+list+`,`+registered[1:]))
			if c.TakesNodes() {
				t.Error("before the first answer")
			}
			_, err := c.Register(t.Context(), run, host)
			if isSpec := dialect == upload.DialectSpec; err != nil || c.TakesNodes() != (want && isSpec) {
				t.Errorf("%s, %s: %v, %v", dialect, list, c.TakesNodes(), err)
			}
		}
	}
}

// puts answers requests with a status.
type puts struct {
	status int
	answer string
	seen   string
}

func (p *puts) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	p.seen = strings.Join([]string{r.Method, r.URL.String(), r.Header.Get("Authorization"), string(body)}, " ")
	return &http.Response{StatusCode: p.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(p.answer))}, err
}

func TestPutNode(t *testing.T) {
	for status, want := range map[int]struct{ isTaken, isError bool }{
		204: {true, false}, 404: {false, true}, 401: {true, true}, 507: {true, true},
	} {
		p := &puts{status: status}
		c, err := New(Config{HTTP: &http.Client{Transport: p}, Endpoint: "https://api.example/v1/", Token: token})
		if err != nil {
			t.Fatal(err)
		}
		isTaken, err := c.PutNode(t.Context(), []byte(`{"node":"n1"}`))
		if isTaken != want.isTaken || (err != nil) != want.isError {
			t.Errorf("%d: %v, %v", status, isTaken, err)
		}
		if e, ok := errors.AsType[*upload.Error](err); ok && e.Status != status {
			t.Errorf("%d: %v", status, e)
		}
		if p.seen != `PUT https://api.example/v1/nodes Bearer `+token+` {"node":"n1"}` {
			t.Error(p.seen)
		}
	}
}

// Reports of live runs are announced by themselves, and their answer names those that are wanted.
func TestLiveReports(t *testing.T) {
	for list, want := range map[string]bool{`{"rt.live":1}`: true, `{"rt.node":1}`: false, `{"rt.live":2}`: false} {
		for _, dialect := range []string{upload.DialectSpec, upload.DialectLive} {
			c, _ := newClient(t, dialect, always(201, `{"extensions":`+list+`,`+registered[1:]))
			_, err := c.Register(t.Context(), run, host)
			if isSpec := dialect == upload.DialectSpec; err != nil || c.TakesLive() != (want && isSpec) {
				t.Errorf("%s, %s: %v, %v", dialect, list, c.TakesLive(), err)
			}
		}
	}
	for _, tt := range []struct {
		status           int
		answer, wanted   string
		isTaken, isError bool
	}{
		{200, `{"wanted":["a","b"],"x":1}`, "a b", true, false}, {200, `{}`, "", true, false}, {200, `<html>`, "", true, true},
		{404, `{"detail":"no"}`, "", false, true}, {503, ``, "", true, true},
	} {
		p := &puts{status: tt.status, answer: tt.answer}
		c, err := New(Config{HTTP: &http.Client{Transport: p}, Endpoint: "https://api.example/v1/", Token: token})
		if err != nil {
			t.Fatal(err)
		}
		wanted, isTaken, err := c.PutLive(t.Context(), []byte(`{"node":"n1"}`))
		if strings.Join(wanted, " ") != tt.wanted || isTaken != tt.isTaken || (err != nil) != tt.isError {
			t.Errorf("%d %s: %q, %v, %v", tt.status, tt.answer, wanted, isTaken, err)
		}
		if p.seen != `PUT https://api.example/v1/live Bearer `+token+` {"node":"n1"}` {
			t.Error(p.seen)
		}
	}
}
