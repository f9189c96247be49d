package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/collect/energy"
	"github.com/resource-tracker/rt/collect/gpu"
	"github.com/resource-tracker/rt/collect/perf"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/internal/config"
	"github.com/resource-tracker/rt/slurm/layout"
)

// openSources makes the sources of the node and those of the job.
func (t *tracker) openSources() {
	fs := proc.NewFS(procRoot, sysRoot)
	processes := proc.NewProcesses(fs)
	t.node = []collect.Source{
		proc.NewCPU(fs), processes, proc.NewMemory(fs), proc.NewNet(fs),
		proc.NewDisk(fs), proc.NewSpace(fs),
		proc.NewLoad(fs), proc.NewCPUFreq(fs), proc.NewFabric(fs), proc.NewLustre(fs), proc.NewNFS(fs),
	}
	identity := t.tracked // that of the job, which does not change
	t.job.trees = newJobTrees(fs, processes, layout.NewStepdSearch(procRoot, &identity).Among, func(e rt.Event) { t.writer.Event(e) })
	t.job.trees.began = t.job.tellBegun
	t.sources = []collect.Source{
		t.job.trees,
		gpu.New(devRoot, sysRoot, gpu.WithTracked(gpu.Tracked{
			PIDs: t.job.Procs, Devices: t.tracked.GPUs, ByDevice: true,
			Event: func(e rt.Event) { t.writer.Event(e) },
		})),
	}
	if t.cfg.Energy.Source != "off" {
		t.sources = append(t.sources, energy.New(sysRoot))
	}
	if p := t.cfg.Perf; p != (config.Perf{}) {
		t.sources = append(t.sources, perf.New(perf.Options{Sys: sysRoot, Core: p.Core, Node: p.Node, RAPL: p.RAPL, MSR: p.MSR, Cgroup: t.job.counted}))
	}
	if top := t.cfg.Tracker.TopProcesses; top > 0 {
		procs := proc.NewJobProcs(fs, t.job, top)
		t.job.procs.Store(procs)
		t.sources = append(t.sources, procs)
	}
}

// openLease opens what the node's trackers share. Without it this one reads the
// node by itself, which costs a little more.
func (t *tracker) openLease() {
	dir := filepath.Join(t.cfg.Tracker.StateDir, "node")
	_ = os.Mkdir(dir, 0o700) // the Prolog makes it, where the tracker may not
	lease, err := collect.OpenLease(dir, leaseKey(t.tracked.BootID))
	if err != nil {
		status := "failed"
		switch {
		case errors.Is(err, fs.ErrNotExist):
			status = "absent"
		case errors.Is(err, fs.ErrPermission):
			status = "denied"
		}
		t.writer.Event(rt.Event{Time: time.Now(), Kind: "sensor", Name: "node lease", Status: status, Detail: err.Error()})
		return
	}
	t.lease = lease
}

// leaseKey names what the node's values are of: trackers of another boot, or with
// another view of network and mounts, read others.
func leaseKey(boot string) string {
	key := []string{boot}
	for _, kind := range [...]string{"net", "mnt"} {
		ns, _ := os.Readlink(procRoot + "/self/ns/" + kind) // a kernel without namespaces has one view
		key = append(key, ns)
	}
	return strings.Join(key, " ")
}
