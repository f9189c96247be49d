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
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
)

// screenshots writes the screenshots of docs/, of a site with the jobs of some weeks.
func screenshots(t *testing.T, c *chromium.Browser) {
	t.Helper()
	dir, spools := t.TempDir(), t.TempDir()
	r, err := registry.Open(t.Context(), filepath.Join(dir, "registry.db"), registry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	users, names := []string{"alice", "bob", "carol", "dmitri", "eve"}, []string{"train-resnet", "relax_bulk", "npt-equilibrate", "align-reads", "postprocess"}
	for n := range 100 {
		u := random.IntN(len(users))
		err = errors.Join(err, storeJob(t.Context(), spools, r, 10*(n+1), func(run *rt.Run) {
			run.User, run.Account, run.Meta.JobName = users[u], []string{"physics", "chemistry"}[u%2], names[(u+random.IntN(2))%len(names)]
			run.Partition, run.Node = []string{"batch", "long", "gpu"}[random.IntN(3)], fmt.Sprint("n", 1+random.IntN(12))
			run.AllocCPUs, run.AllocMem = rt.Some(2+random.Uint64N(14)), rt.Some((70+random.Uint64N(900))<<20)
		}))
	}
	now := time.Now()
	for i := range 12 {
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
		err = errors.Join(err, r.Nodes.Put(t.Context(), "owner", n, now.Add(-4*time.Minute)))
	}
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	base := strings.Replace(servePages(t, dir)+"/", "http://", "http://any:page-all@", 1)
	for _, shot := range []struct {
		file, scheme, path string
		width, height      int
	}{
		{"site-jobs", "light", "jobs?account=physics", 1280, 640}, {"site-accounts", "light", "accounts?since=2026-03-01", 1280, 1240}, {"site-nodes", "light", "nodes", 1280, 640},
		{"site-phone-dark", "dark", "jobs?sort=waste", 390, 700},
	} {
		c.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": shot.scheme}}}, nil)
		c.Open(base + shot.path)
		c.Screenshot("../../docs/"+shot.file+".png", shot.width, shot.height)
	}
}
