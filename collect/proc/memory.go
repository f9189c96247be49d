package proc

import (
	"errors"
	"fmt"
	"math"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Memory reads /proc/meminfo.
type Memory struct {
	file file
}

// NewMemory returns the source of the node's memory figures, in bytes.
func NewMemory(fs FS) *Memory { return &Memory{file: file{path: fs.Proc + "/meminfo"}} }

// Name is the name of the source in the ledger.
func (m *Memory) Name() string { return "memory" }

// Close closes the descriptor.
func (m *Memory) Close() error { return m.file.close() }

// Read fills the memory part of s.Node.
func (m *Memory) Read(s *rt.Snapshot) error {
	b, err := m.file.read()
	if err != nil {
		return err
	}
	if err := parseMeminfo(b, &s.Node); err != nil {
		return fmt.Errorf("parse %s: %w", m.file.path, err)
	}
	return nil
}

// parseMeminfo sets the fields of n that have a line, in bytes. The file's "kB" are 1024
// bytes.
func parseMeminfo(b []byte, n *rt.NodeReading) error {
	for len(b) > 0 {
		key, kib, ok, rest := procfile.Pair(b)
		b = rest
		dst := meminfoField(key, n)
		if dst != nil && ok && kib <= math.MaxUint64/1024 {
			dst.Set(kib * 1024)
		}
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
