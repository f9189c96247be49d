package cgroup

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
)

// cpusetLooks is at how many readings after the job appeared its CPUs are looked
// at: the resource manager sets them a moment after it made the directory.
const cpusetLooks = 5

// tellCPUSet tells the ledger which CPUs and NUMA nodes the job may use, as the
// kernel lists them ("0-3,8"), and again where the first readings differ.
func (j *Job) tellCPUSet() {
	if j.cpusetLooks == 0 {
		return
	}
	j.cpusetLooks--
	for _, t := range j.trees {
		var cpus, mems string
		switch {
		case t.has(cgroupfs.Unified):
			cpus, mems = word(t.dir, "cpuset.cpus.effective"), word(t.dir, "cpuset.mems.effective")
		case t.has("cpuset"):
			cpus, mems = word(t.dir, "cpuset.cpus"), word(t.dir, "cpuset.mems")
		}
		if allowed := "cpus=" + cpus + " mems=" + mems; cpus != "" && allowed != j.allowed {
			j.allowed = allowed
			j.note(rt.Event{Kind: "job", Name: "cpuset", Status: "ok", Detail: allowed})
		}
	}
}

// word returns what a small file holds, and nothing where there is none.
func word(dir, name string) string {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || len(b) > 4096 {
		return ""
	}
	return strings.TrimSpace(string(b))
}
