package cgroup

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Container reads the limit of the cgroup that this process is in, of a container for example, with its peak
// and its OOM kills. It sets MemLimit, MemPeak and EventsOOMKill of the snapshot's job, which has no phase. If there
// are several limits above each other, the lowest one is meant.
type Container struct {
	limit rt.Opt[uint64]
	peak  string // the file, of the cgroup with the limit
	kills string // the file

	started rt.Opt[uint64] // the peak at the first reading
	isNext  bool           // the first reading was taken
}

// The files of both versions of the cgroup interface, by version.
var (
	limitFiles = [...]string{1: "memory.limit_in_bytes", 2: "memory.max"}
	peakFiles  = [...]string{1: "memory.max_usage_in_bytes", 2: "memory.peak"}
	killFiles  = [...]string{1: "memory.oom_control", 2: "memory.events"}
)

// NewContainer returns the source, or nil if no cgroup of this process has a limit of memory.
func NewContainer(procRoot string) (*Container, error) {
	own, err := cgroupfs.ReadOwn(procRoot, "memory")
	if err != nil || own.Version == 0 {
		return nil, err
	}
	c := &Container{}
	for _, dir := range own.Dirs {
		limit, ok := readLimit(filepath.Join(dir, limitFiles[own.Version]))
		if !ok || limit >= c.limit.Or(rt.Unlimited) {
			continue
		}
		c.limit.Set(limit)
		c.peak, c.kills = filepath.Join(dir, peakFiles[own.Version]), filepath.Join(dir, killFiles[own.Version])
	}
	if !c.limit.Valid() {
		return nil, nil
	}
	if own.Version == 1 { // v1 counts a kill in the cgroup of the process alone
		c.kills = filepath.Join(own.Dirs[0], killFiles[1])
	}
	return c, nil
}

// readLimit reads a limit in bytes; ok is false for none. v1 has the largest multiple of a page for none.
func readLimit(path string) (bytes uint64, ok bool) {
	const noLimit = math.MaxInt64 - 1<<16
	v, ok := procfile.Uint([]byte(procfile.Text(path)))
	return v, ok && v < noLimit
}

// CPULimit returns how many CPUs the cgroup of this process may use, rounded up; absent for no limit (v2: cpu.max,
// v1: cpu.cfs_quota_us and cpu.cfs_period_us).
func CPULimit(procRoot string) (cpus rt.Opt[uint64], err error) {
	own, err := cgroupfs.ReadOwn(procRoot, "cpu")
	for _, dir := range own.Dirs {
		quota, period, _ := strings.Cut(procfile.Text(dir, "cpu.max"), " ")
		if own.Version == 1 {
			quota, period = procfile.Text(dir, "cpu.cfs_quota_us"), procfile.Text(dir, "cpu.cfs_period_us")
		}
		q, ok1 := procfile.Uint([]byte(quota)) // "max" and -1 are none
		p, ok2 := procfile.Uint([]byte(period))
		if ok1 && ok2 && p > 0 {
			cpus.Set(min(cpus.Or(math.MaxUint64), max(1, (q+p-1)/p)))
		}
	}
	return cpus, err
}

// Limit returns the limit in bytes.
func (c *Container) Limit() uint64 { return c.limit.Or(rt.Unlimited) }

// Name is the name of the source in the ledger.
func (*Container) Name() string { return "container" }

// Close does nothing.
func (*Container) Close() error { return nil }

// Read implements collect.Source. A peak that was reached before the first reading is left out.
func (c *Container) Read(s *rt.Snapshot) error {
	j := &s.Job
	j.MemLimit = c.limit
	peak, ok := procfile.Uint([]byte(procfile.Text(c.peak)))
	if ok && !c.isNext {
		c.started.Set(peak)
	}
	c.isNext = true
	if before, isKnown := c.started.Get(); ok && isKnown && peak > before {
		j.MemPeak.Set(peak)
	}
	text, err := os.ReadFile(c.kills)
	if errors.Is(err, os.ErrNotExist) {
		return nil // a kernel without the file
	}
	for line := range strings.Lines(string(text)) {
		if n, isKills := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); isKills {
			if v, ok := procfile.Uint([]byte(n)); ok {
				j.EventsOOMKill.Set(v)
			}
		}
	}
	return err
}
