package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/collect/energy"
	"github.com/resource-tracker/rt/collect/gpu"
	"github.com/resource-tracker/rt/collect/perf"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/slurm/layout"
	"github.com/resource-tracker/rt/tracker"
)

// openSources opens the sources of the node and of the job.
func (t *jobTracker) openSources() {
	fs := proc.NewFS(procRoot, sysRoot)
	processes := proc.NewProcesses(fs)
	t.node = []collect.Source{
		proc.NewCPU(fs), processes, proc.NewMemory(fs), proc.NewNet(fs),
		proc.NewDisk(fs), proc.NewSpace(fs),
		proc.NewLoad(fs), proc.NewCPUFreq(fs), proc.NewFabric(fs), proc.NewLustre(fs), proc.NewNFS(fs),
	}
	trees := tracker.NewProcessTrees(fs, processes, layout.NewStepdSearch(procRoot, &t.id).Among, func(e rt.Event) { t.writer.Event(e) })
	t.job.UseTrees(trees)
	t.sources = []collect.Source{
		trees,
		gpu.New(devRoot, sysRoot, gpu.WithTracked(gpu.Tracked{
			PIDs: t.job.Procs, Devices: t.id.GPUs, ByDevice: true,
			Event: func(e rt.Event) { t.writer.Event(e) },
		})),
	}
	if t.cfg.Energy.Source != "off" {
		t.sources = append(t.sources, energy.New(sysRoot))
	}
	if p := t.cfg.Perf; p != (config.Perf{}) {
		t.sources = append(t.sources, perf.New(perf.Options{Sys: sysRoot, Core: p.Core, Node: p.Node, RAPL: p.RAPL, MSR: p.MSR, Cgroup: t.job.PerfCgroup}))
	}
	if top := t.cfg.Tracker.TopProcesses; top > 0 {
		procs := proc.NewJobProcs(fs, t.job, top)
		t.job.UseProcs(procs)
		t.sources = append(t.sources, procs)
	}
}

// openNodeCache opens the node's readings that its trackers share. Without it each reads the node.
func (t *jobTracker) openNodeCache() {
	dir := filepath.Join(t.cfg.Tracker.StateDir, "node")
	_ = os.Mkdir(dir, 0o700) // the Prolog makes it if the tracker has no permission
	cache, err := collect.OpenNodeCache(dir, cacheKey(t.id.BootID))
	if err != nil {
		status := "failed"
		switch {
		case errors.Is(err, fs.ErrNotExist):
			status = "absent"
		case errors.Is(err, fs.ErrPermission):
			status = "denied"
		}
		t.writer.Event(rt.Event{Kind: "sensor", Name: "node cache", Status: status, Detail: err.Error()})
		return
	}
	t.cache = cache
}

// cacheKey identifies the boot and the namespaces in which trackers read the same values.
func cacheKey(boot string) string {
	key := []string{boot}
	for _, kind := range [...]string{"net", "mnt"} {
		ns, _ := os.Readlink(procRoot + "/self/ns/" + kind) // a kernel without namespaces has one view
		key = append(key, ns)
	}
	return strings.Join(key, " ")
}
