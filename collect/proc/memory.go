package proc

import (
	"errors"
	"math"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// NewMemory returns the source of the node's memory figures, in bytes: /proc/meminfo.
func NewMemory(fs FS) *File {
	return &File{"memory", file{path: fs.Proc + "/meminfo"}, func(b []byte, s *rt.Snapshot) error { return parseMeminfo(b, &s.Node) }}
}

// parseMeminfo sets the fields of n that have a line, in bytes. "kB" are 1024 bytes.
func parseMeminfo(b []byte, n *rt.NodeReading) error {
	var pages, pageKiB rt.Opt[uint64]
	for len(b) > 0 {
		key, kib, ok, rest := procfile.Pair(b)
		b = rest
		switch {
		case ok && string(key) == "HugePages_Free:":
			pages.Set(kib) // a number of pages
		case ok && string(key) == "Hugepagesize:":
			pageKiB.Set(kib)
		}
		field := meminfo[string(key)]
		if field != nil && ok && kib <= math.MaxUint64/1024 {
			field(n).Set(kib * 1024)
		}
	}
	free, ok1 := pages.Get()
	size, ok2 := pageKiB.Get()
	if ok1 && ok2 && size > 0 && free <= math.MaxUint64/1024/size {
		n.HugeFree.Set(free * size * 1024)
	}
	if !n.MemTotal.Valid() {
		return errors.New("no line MemTotal")
	}
	return nil
}

// meminfo has the fields of /proc/meminfo in kB.
var meminfo = map[string]func(*rt.NodeReading) *rt.Opt[uint64]{
	"MemTotal:":     func(n *rt.NodeReading) *rt.Opt[uint64] { return &n.MemTotal },
	"MemFree:":      func(n *rt.NodeReading) *rt.Opt[uint64] { return &n.MemFree },
	"MemAvailable:": func(n *rt.NodeReading) *rt.Opt[uint64] { return &n.MemAvailable },
	"Buffers:":      func(n *rt.NodeReading) *rt.Opt[uint64] { return &n.Buffers },
	"Cached:":       func(n *rt.NodeReading) *rt.Opt[uint64] { return &n.Cached },
	"SReclaimable:": func(n *rt.NodeReading) *rt.Opt[uint64] { return &n.SReclaimable },
	"Shmem:":        func(n *rt.NodeReading) *rt.Opt[uint64] { return &n.Shmem },
	"Active:":       func(n *rt.NodeReading) *rt.Opt[uint64] { return &n.Active },
	"Inactive:":     func(n *rt.NodeReading) *rt.Opt[uint64] { return &n.Inactive },
	"SwapTotal:":    func(n *rt.NodeReading) *rt.Opt[uint64] { return &n.SwapTotal },
	"SwapFree:":     func(n *rt.NodeReading) *rt.Opt[uint64] { return &n.SwapFree },
}
