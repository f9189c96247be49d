package main

import (
	"bytes"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/format/sonar"
)

// userNames returns a function that asks for each user once.
func userNames() func(uid uint64) string {
	known := map[uint64]string{}
	return func(uid uint64) string {
		if name, ok := known[uid]; ok {
			return name
		}
		name := sonar.NoInfoUID(uid)
		if u, err := user.LookupId(strconv.FormatUint(uid, 10)); err == nil && u.Username != "" {
			name = u.Username
		}
		known[uid] = name
		return name
	}
}

// jobOf is the Slurm job of a process: by its cgroup, whose name nobody but Slurm
// gives, else by SLURM_JOB_ID of its environment where we may read it; 0 for none.
func jobOf(procRoot string, p *proc.Listed) uint64 {
	if job := jobOfCgroup(p.Cgroup); job != 0 {
		return job
	}
	f, err := os.Open(filepath.Join(procRoot, strconv.Itoa(p.PID), "environ"))
	if err != nil {
		return 0 // another user's, or it has ended
	}
	defer f.Close() // opened for reading: nothing can be lost
	environ := make([]byte, maxEnviron)
	n, err := f.Read(environ)
	if err != nil {
		return 0
	}
	for variable := range bytes.SplitSeq(environ[:n], []byte{0}) {
		if value, ok := bytes.CutPrefix(variable, []byte("SLURM_JOB_ID=")); ok {
			job, _ := strconv.ParseUint(string(value), 10, 32) // anybody may set it to anything
			return job
		}
	}
	return 0
}

// maxEnviron bounds what is read of one process's environment, in bytes.
const maxEnviron = 64 << 10

// jobOfCgroup finds the directory job_<id> in the lines of /proc/<pid>/cgroup.
func jobOfCgroup(text string) uint64 {
	for line := range strings.Lines(text) {
		for part := range strings.SplitSeq(strings.TrimSpace(line), "/") {
			if id, ok := strings.CutPrefix(part, "job_"); ok {
				if job, err := strconv.ParseUint(id, 10, 32); err == nil {
					return job
				}
			}
		}
	}
	return 0
}

// sonarDescription is the host in one line for people.
func sonarDescription(h *rt.Host, cards []sonar.Card) string {
	model := h.CPUModel
	if model == "" {
		model = "CPUs of an unknown model"
	}
	parts := []string{fmt.Sprintf("%dx %s", h.VCPUs.Or(0), model), fmt.Sprintf("%d GiB", h.MemoryMiB.Or(0)>>10)}
	for i := 0; i < len(cards); {
		n := i + 1
		for n < len(cards) && cards[n].Model == cards[i].Model && cards[n].MemSizeKiB == cards[i].MemSizeKiB {
			n++
		}
		parts = append(parts, fmt.Sprintf("%dx %s @ %d GiB", n-i, cards[i].Model, cards[i].MemSizeKiB>>20))
		i = n
	}
	return strings.Join(parts, ", ")
}
