package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	rtreport "github.com/resource-tracker/rt/report"
	reportruns "github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/client"
	"github.com/resource-tracker/rt/site/registry"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
)

// copyOfRun is a copy of a run with so many readings. Its exit code is its number, from 10 on.
type copyOfRun struct {
	state    rt.State
	readings int64
	owner    string // of the registration
	noRecord bool   // retention has removed it
}

// write makes the file of the copy.
func (c *copyOfRun) write(dir string, job uint64, step string, number int64) (path string, err error) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	run := rt.Run{
		Identity:   rt.Identity{Cluster: "c", JobID: rt.Some(job), Step: step, Node: "n1", Start: start},
		Allocation: rt.Allocation{User: "alice", Scheduler: "slurm"},
		Ending:     rt.Ending{State: rt.StateRunning, ExitCode: rt.Some(10 + number)},
	}
	w, err := spool.Create(dir, run, rt.Host{}, spool.Options{})
	if err != nil {
		return "", err
	}
	for i := range c.readings {
		err = errors.Join(err, w.Put(&rt.Snapshot{Seq: i + 1, Wall: start.UnixNano() + i*1e9, Boot: i * 1e9}))
	}
	if c.state == rt.StateRunning {
		return w.Path(), errors.Join(err, w.Close())
	}
	run.Outcome, run.End = rt.OutcomeFailed, start.Add(time.Minute)
	return w.Path(), errors.Join(err, w.End(run))
}

// register stores the copy as a further registration.
func (c *copyOfRun) register(ctx context.Context, r *registry.Registry, path, id string) error {
	from, err := spool.Open(path)
	if err != nil {
		return err
	}
	var record bytes.Buffer
	err = archive.Write(ctx, &record, from, nil)
	run := from.Run()
	s, failed := rtreport.Summarize(run, nil, from.Snapshots(ctx, 1, 0))
	summary, encoded := json.Marshal(s.Delivered())
	err = errors.Join(err, failed, encoded, from.Close())
	if err != nil {
		return err
	}
	sum := sha256.Sum256(record.Bytes())
	o := site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: int64(record.Len()), SHA256: hex.EncodeToString(sum[:])}
	err = r.Runs.Create(ctx, site.StoredRun{ID: id, Owner: c.owner, Created: run.Start, Metadata: []byte(`{}`)})
	if err == nil {
		_, err = r.Runs.PutObject(ctx, o, record.Bytes(), &run)
	}
	if err == nil && c.state == rt.StateEnded {
		_, err = r.Runs.Finish(ctx, id, site.Finish{RunStatus: "failed", DataSource: "inline", Summary: summary}, nil, nil)
	}
	if err != nil || !c.noRecord {
		return err
	}
	old, err := r.Runs.Get(ctx, id)
	return errors.Join(err, r.Removals.Rewrite(ctx, site.Rewrite{Old: old, OldRecord: o, Metadata: old.Metadata, Finish: old.Finish, Run: &run}))
}

// copyCases are the pairs of copies that list, page, report and lake must rank alike. want is the
// number of the copy that all show; the local copy comes after the site's copies.
var copyCases = []struct {
	name  string
	step  string
	site  []copyOfRun // in the order of registration
	local *copyOfRun
	want  int
}{
	{"both ended, the first with more readings", "", []copyOfRun{{rt.StateEnded, 9, "a", false}, {rt.StateEnded, 3, "a", false}}, nil, 1},
	{"both ended, the second with more readings", "", []copyOfRun{{rt.StateEnded, 3, "a", false}, {rt.StateEnded, 9, "a", false}}, nil, 1},
	{"the first has ended", "", []copyOfRun{{rt.StateEnded, 3, "a", false}, {rt.StateRunning, 9, "a", false}}, nil, 0},
	{"the second has ended", "", []copyOfRun{{rt.StateRunning, 9, "a", false}, {rt.StateEnded, 3, "a", false}}, nil, 1},
	{"both run", "", []copyOfRun{{rt.StateRunning, 9, "a", false}, {rt.StateRunning, 3, "a", false}}, nil, 1},
	{"the second has no record", "", []copyOfRun{{rt.StateEnded, 3, "a", false}, {rt.StateEnded, 9, "a", true}}, nil, 0},
	{"the second of three has ended", "", []copyOfRun{{rt.StateRunning, 9, "a", false}, {rt.StateEnded, 3, "a", false}, {rt.StateRunning, 5, "a", false}}, nil, 1},
	{"another owner of nodes", "", []copyOfRun{{rt.StateEnded, 3, "a", false}, {rt.StateEnded, 9, "b", false}}, nil, 0},
	{"the token of the user", "0", []copyOfRun{{rt.StateEnded, 3, "a", false}, {rt.StateEnded, 9, "user:x", false}}, nil, 0},
	{"local and ended at the site", "", []copyOfRun{{rt.StateEnded, 3, "a", false}}, &copyOfRun{rt.StateRunning, 9, "", false}, 0},
	{"ended locally", "", []copyOfRun{{rt.StateRunning, 9, "a", false}}, &copyOfRun{rt.StateEnded, 3, "", false}, 1},
}

// Of several copies of a run list, page, report and JSON show the same one, and the lake takes it, whatever order they arrive in.
func TestAllShowTheSameCopy(t *testing.T) {
	siteDir, spoolDir := t.TempDir(), t.TempDir()
	st, err := sitestores.Open(t.Context(), config.Serve{Dir: siteDir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	started(t, st)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := registry.Open(t.Context(), filepath.Join(siteDir, "registry.db"), registry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	idOf := func(job, k int) string {
		return fmt.Sprintf("20260301t12000%d-%s%c", k, strings.Repeat("a", 25), 'a'+job)
	}
	for k := range 3 {
		for job, tt := range copyCases {
			if k >= len(tt.site) {
				continue
			}
			path, err := tt.site[k].write(t.TempDir(), uint64(job+1), tt.step, int64(k))
			err = errors.Join(err, tt.site[k].register(t.Context(), r, path, idOf(job, k)))
			if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
		}
	}
	for job, tt := range copyCases {
		if tt.local != nil {
			if _, err := tt.local.write(spoolDir, uint64(job+1), tt.step, int64(len(tt.site))); err != nil {
				t.Fatal(err)
			}
		}
	}
	inLake := map[int]string{}
	for job, tt := range copyCases {
		inLake[job] = bestForLake(t, r, uint64(job+1), tt.step)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	base := servePages(t, siteDir)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("page-all"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{URL: base, TokenFile: token})
	if err != nil {
		t.Fatal(err)
	}
	copies, err := c.Figures(t.Context(), client.Query{})
	if err != nil {
		t.Fatal(err)
	}
	runs, err := reportruns.Read(t.Context(), []string{spoolDir}, reportruns.Options{})
	if err != nil {
		t.Fatal(err)
	}
	runs.Join(copies)
	for job, tt := range copyCases {
		id, exit := rt.Some(uint64(job+1)), rt.Some(int64(10+tt.want))
		isLocal := tt.want == len(tt.site)
		shown := 0
		for _, s := range runs.Summaries {
			if s.Run.JobID != id {
				continue
			}
			shown++
			isRunning := s.Run.State == rt.StateRunning // the list of a site has no figures of such a run
			if !isRunning && s.Run.ExitCode != exit {
				t.Errorf("%s: the list has %v, want %v", tt.name, s.Run.ExitCode, exit)
			}
		}
		if shown != 1 {
			t.Errorf("%s: the list has %d runs", tt.name, shown)
		}
		local, _ := spool.FindJob(spoolDir, fmt.Sprint(job+1))
		found, err := c.Look(t.Context(), client.Wanted{Job: fmt.Sprint(job + 1), Dir: spoolDir, Local: local, LocalErr: spool.ErrNotFound})
		if err == nil {
			err = found.Fetch(t.Context(), func(err error) { t.Errorf("%s: the report warns: %v", tt.name, err) })
		}
		if err != nil || len(found.Entries) != 1 || found.Entries[0].Run.ExitCode != exit {
			t.Errorf("%s: the report has %+v, %v, want %v", tt.name, found.Entries, err, exit)
		}
		if err := found.Close(nil); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if isLocal {
			continue // the site does not have it
		}
		for _, s := range copies {
			if s.Run.JobID == id && s.Place != idOf(job, tt.want) {
				t.Errorf("%s: the list has registration %s", tt.name, s.Place)
			}
		}
		_, _, body := getPage(t, fmt.Sprintf("%s/report.json?cluster=c&id=%d&generation=1", base, job+1), "page-all")
		var page []*rtreport.Summary
		if err := json.Unmarshal([]byte(body), &page); err != nil || len(page) != 1 || page[0].Run.ExitCode != exit {
			t.Errorf("%s: the page has %.300s, %v, want %v", tt.name, body, err, exit)
		}
		if inLake[job] != idOf(job, tt.want) {
			t.Errorf("%s: the lake has %s", tt.name, inLake[job])
		}
	}
}

// bestForLake is the registration of the run of a job that the lake has.
func bestForLake(t *testing.T, r *registry.Registry, job uint64, step string) string {
	t.Helper()
	run := rt.Run{Identity: rt.Identity{JobID: rt.Some(job), Step: step, Node: "n1", Start: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}}
	list, err := r.Lake.Registrations(t.Context(), site.Changed{Cluster: "c", Node: "n1", Start: run.Start, Name: run.FileStem(), JobID: run.JobID})
	if err != nil {
		t.Fatal(err)
	}
	best := rt.Copy{State: rt.StateRunning}
	for _, c := range list {
		this := rt.Copy{State: c.State, HasRecord: true, IsAtSite: true, Place: c.ID}
		_, err := r.Objects.RecordOf(t.Context(), c.ID)
		if err == nil && this.Better(&best) {
			best = this
		}
	}
	return best.Place
}
