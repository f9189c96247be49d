package receiver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt/upload"
)

func TestAClientWithTooManyRequestsIsRefused(t *testing.T) {
	l := newLimits(1, 10)
	now := time.Unix(1e9, 0)
	allowed := func(client string, at time.Time, n int) (passed int) {
		for range n {
			if l.early(client, at) == 0 {
				passed++
			}
		}
		return passed
	}
	if n := allowed("a", now, 1000); n != burst+1 {
		t.Errorf("%d of 1000 requests at once passed, not %d", n, burst+1)
	}
	if wait := l.early("a", now); wait != 100*time.Millisecond {
		t.Errorf("the next one would be in time after %s, not 100ms", wait)
	}
	if n := allowed("b", now, 1); n != 1 {
		t.Error("another client is refused as well")
	}
	if n := allowed("a", now.Add(time.Second), 1000); n != 10 {
		t.Errorf("%d passed a second later, not 10", n)
	}
	if n := allowed("a", now.Add(time.Hour), 1000); n != burst+1 {
		t.Errorf("%d passed an hour later, not %d", n, burst+1)
	}
	for i := range 1<<16 + 10 { // forgets those that are in time
		l.early(time.Duration(i).String(), now.Add(2*time.Hour+time.Duration(i)*time.Second))
	}
	if len(l.due) > 1000 {
		t.Errorf("%d clients are remembered", len(l.due))
	}
}

func TestRequestsWaitForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimits(1, 0)
		hold := make(chan struct{})
		first := make(chan struct{})
		go l.limited(httptest.NewRecorder(), httptest.NewRequest("GET", "/runs", nil), func(http.ResponseWriter, *http.Request) {
			close(first)
			<-hold
		})
		<-first
		served := 0
		ask := func() *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			l.limited(w, httptest.NewRequest("GET", "/runs", nil), func(http.ResponseWriter, *http.Request) { served++ })
			return w
		}
		if w := ask(); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "10" || w.Header().Get(upload.HeaderUndone) == "" || served != 0 {
			t.Errorf("without a place: %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
		}
		go func() { time.Sleep(maxWait / 2); close(hold) }()
		if w := ask(); w.Code != http.StatusOK || served != 1 {
			t.Errorf("a place came free: %d", w.Code)
		}
		ctx, cancel := context.WithCancel(t.Context())
		l.enter(ctx)
		cancel()
		if l.enter(ctx) {
			t.Error("a place where there is none")
		}
	})
}

func TestLimitsAreAnswered(t *testing.T) {
	rc := newReceiver(t, Config{ClientRate: 1})
	for range burst + 1 {
		if status, text := api(t, rc, "GET", "/runs", ""); status != http.StatusOK {
			t.Fatal(status, text)
		}
	}
	w := httptest.NewRecorder()
	rc.ServeHTTP(w, httptest.NewRequest("GET", "/runs", nil))
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "too many") {
		t.Errorf("%d, Retry-After %q: %s", w.Code, w.Header().Get("Retry-After"), w.Body)
	}
}

// The directory is not given away under a request that may still write in it.
func TestCloseWaitsForRequests(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		for _, ends := range []bool{true, false} {
			rc := newReceiver(t, Config{Dir: dir})
			rc.limits.enter(t.Context())
			closed := make(chan error, 1)
			go func() { closed <- rc.Close() }()
			synctest.Wait()
			if len(closed) > 0 {
				t.Error("a request was not waited for")
			}
			if ends {
				rc.limits.leave()
				if err := <-closed; err != nil {
					t.Error(err)
				}
				continue
			}
			if err := <-closed; err == nil {
				t.Error("it closed under a request")
			}
			if _, err := New(Config{Dir: dir, Tokens: []TokenHash{HashToken(token)}}); err == nil {
				t.Error("another receiver has the directory")
			}
			if err := rc.store.close(); err != nil {
				t.Error(err)
			}
		}
	})
}
