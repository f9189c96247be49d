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
		dst := meminfoField(key, n)
		if dst != nil && ok && kib <= math.MaxUint64/1024 {
			dst.Set(kib * 1024)
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

func meminfoField(key []byte, n *rt.NodeReading) *rt.Opt[uint64] {
	switch string(key) {
	case "MemTotal:":
		return &n.MemTotal
	case "MemFree:":
		return &n.MemFree
	case "MemAvailable:":
		return &n.MemAvailable
	case "Buffers:":
		return &n.Buffers
	case "Cached:":
		return &n.Cached
	case "SReclaimable:":
		return &n.SReclaimable
	case "Shmem:":
		return &n.Shmem
	case "Active:":
		return &n.Active
	case "Inactive:":
		return &n.Inactive
	case "SwapTotal:":
		return &n.SwapTotal
	case "SwapFree:":
		return &n.SwapFree
	}
	return nil
}
