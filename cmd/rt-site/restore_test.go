package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/e2e/runtest"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/api"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/drain"
)

// restorable is a node with a spool, and a site at an address that stays when the site is restored.
type restorable struct {
	node drain.Directory
	url  string
	site atomic.Pointer[api.Server]
	lost atomic.Bool // a finish gets no answer
	end  func()      // of the service
}

func newRestorable(t *testing.T) *restorable {
	t.Helper()
	r := &restorable{node: drain.Directory{
		Dir: t.TempDir(), StateDir: t.TempDir(), Retain: time.Hour, Access: func() (spool.Access, error) { return spool.Access{}, nil },
	}}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if r.lost.Load() && strings.HasSuffix(q.URL.Path, "/finish") {
			panic(http.ErrAbortHandler)
		}
		r.site.Load().ServeHTTP(w, q)
	}))
	t.Cleanup(web.Close)
	r.url = web.URL
	return r
}

// serve starts a service that takes complete records.
func (r *restorable) serve(t *testing.T, dir string) {
	t.Helper()
	st, err := sitestores.Open(t.Context(), config.Serve{Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := api.New(t.Context(), api.Config{
		Registry: st.Registry, Objects: heldObjects{st.Objects, st.Registry.Settings}, Temp: st.Temp, Tokens: []api.Token{{Hash: site.HashToken(testToken)}}, RunOf: runOf,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.site.Store(s)
	r.end = func() {
		t.Helper()
		if err := errors.Join(s.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	}
}

// track begins a run on the node and returns the function that ends it.
func (r *restorable) track(t *testing.T, job uint64) (end func()) {
	t.Helper()
	run, list := runtest.Job()
	run.JobID = rt.Some(job)
	w, err := spool.Create(r.node.Dir, run, rt.Host{HostName: "n7"}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	put := func(list []rt.Snapshot) {
		for i := range list {
			if err := w.Put(&list[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(list[:70])
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		put(list[70:])
		run.Apply(rt.Exit{Code: rt.Some[int64](0), Outcome: rt.OutcomeFinished, Source: "epilog", Time: run.Start.Add(time.Hour)})
		if err := w.End(run); err != nil {
			t.Fatal(err)
		}
	}
}

// drain delivers what the node has, and again what it has delivered if isAgain.
func (r *restorable) drain(t *testing.T, isAgain bool) drain.Drained {
	t.Helper()
	client, store, err := drain.Receiver{Endpoint: r.url, Token: testToken, S3Endpoint: r.url}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	dir := r.node
	if isAgain {
		dir.Again = time.Now().Add(-time.Hour)
	}
	done, err := dir.Drain(t.Context(), client, store, upload.DrainOptions{BatchRows: 30, Live: true, Tries: 1})
	if (err != nil) != r.lost.Load() {
		t.Fatalf("%+v %v", done, err)
	}
	return done
}

// What was delivered after a backup is delivered again to the restored site, and each run is there once.
func TestDeliveryToARestoredSite(t *testing.T) {
	r := newRestorable(t)
	dir, backup := filepath.Join(t.TempDir(), "site"), t.TempDir()
	r.serve(t, dir)
	r.track(t, 1)()
	r.track(t, 2)()
	endLive := r.track(t, 3)
	if done := r.drain(t, false); done.Delivered != 2 || done.LiveSent != 1 {
		t.Fatalf("%+v", done)
	}
	copyRegistry(t, dir, backup)
	shell(t, []string{"cp -r " + dir + "/objects " + backup}, func() {})
	endLive()
	r.track(t, 4)()
	if done := r.drain(t, false); done.Delivered != 2 {
		t.Fatalf("%+v", done)
	}
	r.track(t, 5)()
	r.lost.Store(true) // the site dies
	if done := r.drain(t, false); done.Failed != 1 {
		t.Fatalf("%+v", done)
	}
	r.lost.Store(false)
	r.end()
	if status, _, messages := rtSite(t, backup, "claim"); status != 0 {
		t.Fatal(messages)
	}
	r.serve(t, backup)
	if done := r.drain(t, false); done.FinishUnconfirmed != 1 || done.Delivered != 1 || done.Again != 0 {
		t.Errorf("without a request to deliver again: %+v", done)
	}
	for range 2 {
		if done := r.drain(t, true); done.Delivered != 5 || done.Again != 5 || done.Failed+done.FinishUnconfirmed != 0 {
			t.Errorf("%+v", done)
		}
		if done := r.drain(t, false); done.Delivered+done.Again != 0 {
			t.Errorf("%+v", done)
		}
		status, out, messages := rtSite(t, backup, "verify")
		if status != 0 || !strings.HasPrefix(out, "checked 5 runs with 26 objects") { // 4 batches, one more of the tracked run, and a record each
			t.Errorf("%d %s%s", status, out, messages)
		}
	}
	if answer := send(r.site.Load(), http.MethodGet, "/runs", testToken, ""); strings.Count(answer.Body.String(), `"finished"`) < 5 {
		t.Errorf("%s", answer.Body)
	}
	r.end()
	entries, err := spool.List(r.node.Dir)
	if err != nil || len(entries) != 5 {
		t.Fatal(entries, err)
	}
	for _, e := range entries {
		s, err := spool.Open(e.Path)
		if err != nil {
			t.Fatal(err)
		}
		events, err := s.Events()
		again := 0
		for _, event := range events {
			if event.Status == "again" && strings.HasPrefix(event.Detail, "was delivered at 20") {
				again++
			}
		}
		if err := errors.Join(err, s.Close()); err != nil || again != 2 || e.Run.State != rt.StateDelivered {
			t.Errorf("%s: %d times again, %s: %v", e.Path, again, e.Run.State, err)
		}
	}
}
