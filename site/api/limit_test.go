package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt/site"
)

func TestAClientWithTooManyRequestsIsRefused(t *testing.T) {
	p := newPace(10, burst)
	now := time.Unix(1e9, 0)
	allowed := func(client string, at time.Time, n int) (passed int) {
		for range n {
			if p.early(client, at) == 0 {
				p.count(client, 1, at)
				passed++
			}
		}
		return passed
	}
	if n := allowed("a", now, 1000); n != burst+1 {
		t.Errorf("%d of 1000 requests at once passed, not %d", n, burst+1)
	}
	if wait := p.early("a", now); wait != 100*time.Millisecond {
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
		p.count(time.Duration(i).String(), 1, now.Add(2*time.Hour+time.Duration(i)*time.Second))
	}
	if len(p.due) > 1000 {
		t.Errorf("%d clients are remembered", len(p.due))
	}
}

// TestRequestsWaitForAPlace: a request that gets no units of work in time is refused, and the
// answer shows that nothing was done.
func TestRequestsWaitForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{MaxRequests: 1})
		give := s.limits.work.TakeUnits(t.Context(), "other", 1)
		r := httptest.NewRequest("POST", "/runs", strings.NewReader("{}"))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "10" || w.Header().Get(HeaderUndone) == "" {
			t.Errorf("without a place: %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
		}
		go func() { time.Sleep(maxWait / 2); give() }()
		register(t, s)
		s.limits.work.TakeUnits(t.Context(), "other", 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if s.limits.work.TakeUnits(ctx, "another", 1) != nil {
			t.Error("a place where there is none")
		}
	})
}

// A client that requests many runs takes only its share of the processors.
func TestViewsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{})
		id := register(t, s).RunID
		if status, answer := finishInline(t, s, id, "a\n1\n"); status != http.StatusOK {
			t.Fatal(status, answer)
		}
		owner := s.owners.keys.owner(Token{Hash: site.HashToken(token)})
		for _, path := range []string{"/runs", "/runs/" + id, "/runs/" + id + "/data"} {
			give := s.limits.cpu.TakeUnits(t.Context(), owner, 1<<20) // the share of this client
			answered := make(chan int, 1)
			go func() {
				status, _ := api(t, s, "GET", path, "")
				answered <- status
			}()
			synctest.Wait()
			if len(answered) > 0 {
				t.Errorf("%s: an answer without a turn", path)
			}
			give()
			if status := <-answered; status != http.StatusOK {
				t.Errorf("%s: %d", path, status)
			}
		}
	})
}

func TestLimitsAreAnswered(t *testing.T) {
	s := newServer(t, Config{ClientRate: 1})
	for range burst + 1 {
		if status, text := api(t, s, "GET", "/runs", ""); status != http.StatusOK {
			t.Fatal(status, text)
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "/runs", nil))
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "too many") {
		t.Errorf("%d, Retry-After %q: %s", w.Code, w.Header().Get("Retry-After"), w.Body)
	}
}

// The registry is not closed under a request that still uses it.
func TestCloseWaitsForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ends := range []bool{true, false} {
			s := newServer(t, Config{})
			leave := s.limits.open.TakeUnits(t.Context(), "a", 1)
			closed := make(chan error, 1)
			go func() { closed <- s.Close() }()
			synctest.Wait()
			if len(closed) > 0 {
				t.Error("a request was not waited for")
			}
			if ends {
				leave()
				if err := <-closed; err != nil {
					t.Error(err)
				}
				continue
			}
			if err := <-closed; err == nil {
				t.Error("it closed under a request")
			}
		}
	})
}

// Large bodies, which arrive slowly, leave space for the smaller ones of others. The number of reads is
// limited for all tokens together.
func TestLimitsOfAllTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{})
		for i := range maxLarge / maxTokenLarge {
			s.limits.large.TakeUnits(t.Context(), strconv.Itoa(i), maxTokenLarge)
		}
		g := register(t, s)
		body := `{"run_status":"finished","data_source":"inline","data_csv":"` + strings.Repeat("x", mediumBody) + `"}`
		begin := time.Now()
		if registered(t, s, 200_000) == "" || time.Since(begin) > 0 {
			t.Errorf("a registration waited %s", time.Since(begin))
		}
		if status, answer := api(t, s, "POST", "/runs/"+g.RunID+"/finish", body); status != http.StatusServiceUnavailable {
			t.Errorf("a large finish without space: %d %s", status, answer)
		}
		if status, _ := api(t, s, "GET", "/runs", ""); status != http.StatusOK {
			t.Errorf("a read: %d", status)
		}
		for i := range maxReads {
			s.limits.reads.TakeUnits(t.Context(), strconv.Itoa(i), 1)
		}
		if status, _ := api(t, s, "GET", "/runs", ""); status != http.StatusServiceUnavailable {
			t.Errorf("one read more than the limit: %d", status)
		}
	})
}

func TestAddressOf(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.7:80": "192.0.2.7", "[::ffff:192.0.2.7]:80": "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::/64", "[2001:db8:1:2::9]:81": "2001:db8:1:2::/64", "[fe80::1%eth0]:80": "fe80::/64",
		"@": "@", "": "",
	} {
		if got := addressOf(remote); got != want {
			t.Errorf("%q: %q, not %q", remote, got, want)
		}
	}
}
