package main

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resource-tracker/rt/e2e/await"
	"github.com/resource-tracker/rt/e2e/strict"
	"github.com/resource-tracker/rt/e2e/testsite"
	"github.com/resource-tracker/rt/upload"
)

type meddler func(w http.ResponseWriter, r *http.Request, next http.Handler, n int64)

// reset breaks the connection off without an answer.
func reset() { panic(http.ErrAbortHandler) }

// cut sends half of the answer.
func cut(w http.ResponseWriter, r *http.Request, next http.Handler) {
	whole := httptest.NewRecorder()
	next.ServeHTTP(whole, r)
	body := whole.Body.Bytes()
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(whole.Code)
	_, _ = w.Write(body[:len(body)/2])
	reset()
}

func isPut(r *http.Request) bool { return r.Method == http.MethodPut }

func isFinish(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/finish") }

func refuse(w http.ResponseWriter, status int, text string) { http.Error(w, text, status) }

// faultCase is a fault of the receiver or the store.
type faultCase struct {
	config   testsite.Config
	meddle   meddler
	kept     bool // nothing is delivered before the fault is over
	maySpare bool // the receiver may hold further runs without an answer
	note     string
}

// A fault of the receiver or the store changes neither the command's status nor its output. The
// measured rows arrive once: at once, or after the fault by the command that the message names.
func TestFaults(t *testing.T) {
	t.Parallel()
	cases := map[string]faultCase{
		"every third request gets 500": {meddle: func(w http.ResponseWriter, r *http.Request, next http.Handler, n int64) {
			every3(n, func() { refuse(w, 500, "no") }, w, r, next)
		}},
		"all requests get 500": {kept: true, meddle: func(w http.ResponseWriter, _ *http.Request, _ http.Handler, _ int64) { refuse(w, 500, "no") }},
	}
	others := map[string]faultCase{
		"no fault": {},
		"every third gets 429": {meddle: func(w http.ResponseWriter, r *http.Request, next http.Handler, n int64) {
			every3(n, func() { w.Header().Set("Retry-After", "1"); refuse(w, 429, "later") }, w, r, next)
		}},
		"every third is reset": {maySpare: true, meddle: func(w http.ResponseWriter, r *http.Request, next http.Handler, n int64) { every3(n, reset, w, r, next) }},
		"every third answer is cut": {maySpare: true, meddle: func(w http.ResponseWriter, r *http.Request, next http.Handler, n int64) {
			every3(n, func() { cut(w, r, next) }, w, r, next)
		}},
		"answers come slowly": {meddle: func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int64) { slowly(w, r, next) }},
		"all get 429, for an hour": {kept: true, meddle: func(w http.ResponseWriter, _ *http.Request, _ http.Handler, _ int64) {
			w.Header().Set("Retry-After", "3600")
			refuse(w, 429, "no")
		}},
		"the token is refused": {kept: true, meddle: func(w http.ResponseWriter, r *http.Request, _ http.Handler, _ int64) {
			refuse(w, 401, "not "+r.Header.Get("Authorization"))
		}},
		"all requests get 422": {kept: true, meddle: func(w http.ResponseWriter, _ *http.Request, _ http.Handler, _ int64) {
			refuse(w, 422, `{"detail":[{"msg":"extra fields"}]}`)
		}},
		"the answer is no JSON": {kept: true, meddle: func(w http.ResponseWriter, _ *http.Request, _ http.Handler, _ int64) { refuse(w, 200, "<html>welcome") }},
		"the answer lacks what it must": {kept: true, meddle: func(w http.ResponseWriter, _ *http.Request, _ http.Handler, _ int64) {
			refuse(w, 200, `{"run_id":"x"}`)
		}},
		"the finish gets 500": {kept: true, meddle: func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int64) {
			unless(isFinish(r), 500, w, r, next)
		}},
		"the answer to the finish lost": {kept: true, meddle: func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int64) {
			next.ServeHTTP(w, r)
			if isFinish(r) {
				reset()
			}
		}},
		"the first answer to the finish lost": {note: "finish unconfirmed", meddle: loseFirstFinish()},
		"the store gets 500": {meddle: func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int64) {
			unless(isPut(r), 500, w, r, next)
		}},
		"the store's answers are lost": {meddle: func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int64) {
			if isPut(r) {
				next.ServeHTTP(httptest.NewRecorder(), r)
				reset()
			}
			next.ServeHTTP(w, r)
		}},
		"credentials are expired, once": {meddle: expiredOnce()},
		"credentials expire at once":    {config: testsite.Config{CredentialLife: 4 * time.Minute}},
		"the public service's dialect": {meddle: func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int64) {
			strict.Dialect(next, upload.DialectLive).ServeHTTP(w, r)
		}},
	}
	running, runningOthers := map[string]func(t *testing.T){}, map[string]func(t *testing.T){} // all at the same time
	for name, fault := range cases {
		running[name] = startFault(t, fault)
	}
	if !testing.Short() {
		for name, fault := range others {
			runningOthers[name] = startFault(t, fault)
		}
	}
	for name, check := range running {
		t.Run(name, check)
	}
	t.Run("other faults", func(t *testing.T) {
		if testing.Short() {
			t.Skip("in make check: 18 faults of the receiver and the store")
		}
		for name, check := range runningOthers {
			t.Run(name, check)
		}
	})
}

// startFault starts a command whose run meets the fault; the answer waits for its end and checks what arrived.
func startFault(t *testing.T, fault faultCase) func(t *testing.T) {
	t.Helper()
	s := newSentinel(t, fault.config)
	if fault.meddle != nil {
		var n atomic.Int64
		s.disturb(func(w http.ResponseWriter, r *http.Request, next http.Handler) { fault.meddle(w, r, next, n.Add(1)) })
	}
	cmd := s.streaming("-o", "samples", "sh", "-c", "cat; echo mine; exit 7")
	endCommand := commandInput(t, cmd)
	out := s.start(cmd)
	return func(t *testing.T) {
		s.report(t)
		await.Change(t, cmd.Dir, "two samples", func() bool { return hasLines(filepath.Join(cmd.Dir, "samples"), 2) })
		endCommand()
		o := s.end(cmd, out)
		if o.status != 7 || o.stdout != "mine\n" {
			t.Errorf("the command's status and output: %+v", o)
		}
		if kept := len(o.kept) > 0; kept != fault.kept || kept != strings.Contains(o.stderr, "this sends it later") {
			t.Errorf("kept: %q, said: %s", o.kept, o.stderr)
		}
		if !strings.Contains(o.stderr, fault.note) {
			t.Errorf("no %q: %s", fault.note, o.stderr)
		}
		s.disturb(nil)
		if fault.kept {
			if later := s.later(cmd, o.stderr); later.status != 0 {
				t.Errorf("later: %+v", later)
			}
		}
		samples, err := os.ReadFile(filepath.Join(cmd.Dir, "samples"))
		if err != nil {
			t.Fatal(err)
		}
		s.checkOne(bytes.Count(samples, []byte("\n")), fault.maySpare)
	}
}

// checkOne: the receiver holds one ended run with so many rows, in their order.
func (s *station) checkOne(samples int, maySpare bool) {
	s.t.Helper()
	ended, all := s.ended()
	if len(ended) != 1 || all > 1 && !maySpare {
		s.t.Fatalf("%d runs, of which ended %+v", all, ended)
	}
	r := ended[0]
	if r.Status != "failed" || r.ExitCode == nil || *r.ExitCode != 7 || r.Rows != samples {
		s.t.Errorf("%d samples, received %+v", samples, r)
	}
	lines := strings.Split(strings.TrimSpace(string(s.get("/runs/"+r.ID+"/data"))), "\n")
	for i, line := range lines[1:] {
		if i > 0 && (line[:10] < lines[i][:10] || line == lines[i]) { // by their seconds
			s.t.Errorf("rows out of order:\n%s", strings.Join(lines, "\n"))
		}
	}
	if len(lines)-1 != samples {
		s.t.Errorf("%d samples, data of %d", samples, len(lines)-1)
	}
}

func every3(n int64, fault func(), w http.ResponseWriter, r *http.Request, next http.Handler) {
	if n%3 == 0 {
		fault()
		return
	}
	next.ServeHTTP(w, r)
}

func unless(bad bool, status int, w http.ResponseWriter, r *http.Request, next http.Handler) {
	if bad {
		refuse(w, status, "no")
		return
	}
	next.ServeHTTP(w, r)
}

// slowly sends the answer a few bytes at a time.
func slowly(w http.ResponseWriter, r *http.Request, next http.Handler) {
	whole := httptest.NewRecorder()
	next.ServeHTTP(whole, r)
	w.WriteHeader(whole.Code)
	for piece := range slices.Chunk(whole.Body.Bytes(), 16) { // a busy machine sleeps ten times as long, and the client must not give up
		_, _ = w.Write(piece)
		_ = http.NewResponseController(w).Flush()
		time.Sleep(2 * time.Millisecond)
	}
}

// loseFirstFinish loses the answer to the first finish; the receiver refuses the second.
func loseFirstFinish() meddler {
	var finishes atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int64) {
		next.ServeHTTP(w, r)
		if isFinish(r) && finishes.Add(1) == 1 {
			reset()
		}
	}
}

// expiredOnce refuses the first upload as S3 does with old credentials.
func expiredOnce() meddler {
	var puts atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int64) {
		if isPut(r) && puts.Add(1) == 1 {
			refuse(w, 400, "<Error><Code>ExpiredToken</Code><Message>too old</Message></Error>")
			return
		}
		next.ServeHTTP(w, r)
	}
}

// A network that swallows everything delays the end by a bounded time, and one that
// is not there by next to nothing.
func TestADeadNetwork(t *testing.T) {
	t.Parallel()
	rtSpool(t)                                      // its building is nothing that an end waits for
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts connections, and no program answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	running := map[string]func(t *testing.T){}
	for name, tc := range map[string]struct {
		url  string
		most time.Duration
	}{"silent": {"http://" + silent.Addr().String(), 3 * shutdownTimeout}, "nothing listens": {"http://127.0.0.1:1", 2 * shutdownTimeout}} {
		s := newStation(t, testsite.Config{})
		cmd := s.streaming("-o", "samples", "sh", "-c", "exit 7")
		cmd.Env = append(cmd.Env, "SENTINEL_API_URL="+tc.url)
		began := time.Now()
		out := s.start(cmd)
		running[name] = func(t *testing.T) {
			s.report(t)
			o := s.end(cmd, out)
			if took := time.Since(began); o.status != 7 || took > tc.most {
				t.Errorf("after %s: %+v", took, o)
			}
			if len(o.kept) != 1 || !strings.Contains(o.stderr, "it is kept, and this sends it later: SENTINEL_API_URL="+tc.url+" rt-spool --spool "+o.kept[0]+" drain\n") {
				t.Fatalf("%+v", o)
			}
			// Later the receiver is at another address.
			later := s.later(cmd, strings.Replace(o.stderr, "SENTINEL_API_URL="+tc.url, "SENTINEL_API_URL="+s.url, 1))
			samples, err := os.ReadFile(filepath.Join(cmd.Dir, "samples"))
			if err != nil || later.status != 0 {
				t.Fatalf("%v, %+v", err, later)
			}
			s.checkOne(bytes.Count(samples, []byte("\n")), false)
		}
	}
	t.Run("nothing listens", running["nothing listens"])
	t.Run("silent", func(t *testing.T) {
		if testing.Short() {
			t.Skip("in make check: the end waits 8 s for an answer")
		}
		running["silent"](t)
	})
}
