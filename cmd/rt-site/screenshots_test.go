package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/chromium"
	"github.com/resource-tracker/rt/e2e/runtest"
	rtreport "github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
)

// screenshots writes the screenshots of docs/, of a site with the jobs of two weeks.
func screenshots(t *testing.T, c *chromium.Browser) {
	t.Helper()
	base := newShownSite(t)
	for _, shot := range []struct {
		file, scheme, token, path string
		width, height             int
	}{
		{"site-home", "light", "page-all", "", 1280, 1240}, {"site-home-user", "dark", "page-alice", "", 1280, 1000}, {"site-jobs", "light", "page-all", "jobs?account=physics&sort=-cpu", 1280, 640},
		{"site-job", "dark", "page-alice", "find?q=900_1", 1280, 900}, {"site-accounts", "light", "page-all", "accounts", 1280, 1240}, {"site-nodes", "light", "page-all", "nodes", 1280, 640},
		{"site-phone-dark", "dark", "page-alice", "jobs?sort=waste", 390, 700},
	} {
		c.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": shot.scheme}}}, nil)
		c.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": shot.width, "height": shot.height, "deviceScaleFactor": 1, "mobile": false}, nil)
		c.Open(strings.Replace(base+"/", "http://", "http://any:"+shot.token+"@", 1) + shot.path)
		c.Screenshot("../../docs/"+shot.file+".png", shot.width, shot.height)
	}
}

// newShownSite starts the service with jobs of five users, an array, running jobs and nodes. It returns its URL.
func newShownSite(t *testing.T) string {
	t.Helper()
	dir, spools := t.TempDir(), t.TempDir()
	r, err := registry.Open(t.Context(), filepath.Join(dir, "registry.db"), registry.Config{})
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	users, names := []string{"alice", "bob", "carol", "dmitri", "eve"}, []string{"train-resnet", "relax_bulk", "npt-equilibrate", "align-reads", "postprocess"}
	for n := range 100 {
		u := random.IntN(len(users))
		job, list := runtest.Job()
		id := 10 * (n + 1)
		shift := now.Add(-13 * 24 * time.Hour).Add(time.Duration(3*n) * time.Hour).Sub(job.Start)
		for i := range list {
			list[i].Wall += int64(shift) - int64(id)*int64(time.Hour) // storeRun adds the latter
		}
		err = errors.Join(err, storeRun(t.Context(), spools, r, id, job, list, func(run *rt.Run) {
			run.Start = job.Start.Add(shift)
			run.User, run.Account, run.Meta.JobName = users[u], []string{"physics", "chemistry"}[u%2], names[(u+random.IntN(2))%len(names)]
			run.Partition, run.Node = []string{"batch", "long", "gpu"}[random.IntN(3)], fmt.Sprint("n", 1+random.IntN(12))
			run.AllocCPUs, run.AllocMem = rt.Some(2+random.Uint64N(14)), rt.Some((70+random.Uint64N(900))<<20)
			if n%9 == 0 {
				run.ArrayJobID, run.ArrayTaskID, run.User, run.Meta.JobName = rt.Some[uint64](900), rt.Some(uint64(n/9)), "alice", "sweep"
			}
		}))
	}
	for i := range 12 {
		err = errors.Join(err, r.Nodes.Put(t.Context(), "owner", shownNode(i, now), now.Add(-4*time.Minute)))
	}
	for i := range 6 {
		var live site.LiveRun
		run := &live.Run
		run.Identity = rt.Identity{Cluster: "c", JobID: rt.Some(uint64(5000 + i)), Node: fmt.Sprint("n", i), Start: now.Add(-time.Duration(40+i*37) * time.Minute)}
		run.User, run.Account, run.Partition, run.Meta.JobName, run.State = users[i%2], "physics", []string{"batch", "gpu"}[i%2], names[i%5], rt.StateRunning
		used := float64(1200*i + 300)
		live.CPU.CoresOf, live.CPU.AllocatedSecs, live.CPU.UsedSecs, live.Record.Last = "allocation", rt.Some(7200.0), rt.Some(used), now.Add(-time.Duration(i)*time.Minute)
		live.CPU.Cores, live.CPU.UsedPct, live.ElapsedSecs = rt.Some(uint64(8+4*i)), rt.Some(used/72), rt.Some(600.0)
		live.Memory.LimitOf, live.Memory.LimitBytes, live.Memory.PeakBytes = "allocation", rt.Some(uint64(1<<30)), rt.Some(uint64(i+1)<<27)
		if i%2 == 1 {
			run.GPUs, live.GPUs = "0", []rtreport.GPUPart{{InJob: rt.Some(true), BusyPct: rt.Some(float64(2 * i))}}
		}
		_, failed := r.Live.Put(t.Context(), "nodes", site.LiveReport{Cluster: "c", Node: run.Node, Runs: []site.LiveRun{live}}, now)
		err = errors.Join(err, failed)
	}
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return servePages(t, dir, `name = "Alps HPC"`)
}

// shownNode is a node; some have problems.
func shownNode(i int, now time.Time) site.NodeState {
	one := rt.Some[int64]
	n := site.NodeState{
		Cluster: "alps", Node: fmt.Sprint("n", i+1), Version: rt.Version, Time: now, Trackers: one(int64(i % 4)), UndeliveredRuns: one(0), UndeliveredBytes: one(0),
		LastSuccess: rt.Some(now.Add(-4 * time.Minute)), FailedDrains: one(0), Lost: one(0), HookFailures: one(0), SpoolBytes: one(int64(20+i) << 20), SpoolLimit: one(1 << 30),
	}
	switch i {
	case 3:
		n.BreakerUntil, n.HookFailures = rt.Some(now.Add(30*time.Minute)), one(5)
	case 5:
		n.FailedDrains, n.LastSuccess, n.OldestUndelivered, n.UndeliveredRuns, n.UndeliveredBytes = one(84), rt.Some(now.Add(-7*time.Hour)), rt.Some(now.Add(-7*time.Hour)), one(14), one(9<<20)
	case 7:
		n.SpoolBytes = one(990 << 20)
	}
	return n
}
