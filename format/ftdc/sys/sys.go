// Package sys reads figures of the machine and of a process for an ftdc.FTDC: its types are Statsers. A figure that
// cannot be read is left out of the record. The names and units are in rt.NodeFigures and rt.TreeFigures.
//
//	f.Add("tree", sys.NewTree(proc.NewFS("/proc", "/sys"), os.Getpid()))
package sys

import (
	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/collect/proc"
)

// Host is a Statser of the machine.
type Host struct {
	sources []collect.Source
	snap    rt.Snapshot
}

// NewHost returns a Statser of the machine, which the caller closes.
func NewHost(fs proc.FS) *Host {
	return &Host{sources: []collect.Source{proc.NewCPU(fs), proc.NewLoad(fs), proc.NewMemory(fs), proc.NewNet(fs), proc.NewDisk(fs)}}
}

// Stats returns the figures of the machine by their names; busy_ticks and all_ticks are CPU time since boot.
func (h *Host) Stats() any {
	h.snap.Node = rt.NodeReading{}
	for _, s := range h.sources {
		_ = s.Read(&h.snap) // what it could not read is absent
	}
	stats := statsOf(rt.NodeFigures[:], &h.snap.Node)
	if ticks, ok := h.snap.Node.CPU.Get(); ok {
		stats["busy_ticks"], stats["all_ticks"] = ticks.Busy(), ticks.Total()
	}
	return stats
}

// Close closes the files.
func (h *Host) Close() {
	for _, s := range h.sources {
		_ = s.Close() // opened for reading: nothing can be lost
	}
}

// Tree is a Statser of a process and its descendants.
type Tree struct {
	tree *proc.Tree
	snap rt.Snapshot
}

// NewTree returns a Statser of the process pid and its descendants, which the caller closes.
func NewTree(fs proc.FS, pid int) *Tree { return &Tree{tree: proc.NewTree(fs, pid)} }

// Stats returns the figures of the tree by their names.
func (t *Tree) Stats() any {
	t.snap.Tree = rt.TreeReading{}
	_ = t.tree.Read(&t.snap) // what it could not read is absent
	return statsOf(rt.TreeFigures[:], &t.snap.Tree)
}

// Close closes the files.
func (t *Tree) Close() error { return t.tree.Close() }

func statsOf[T any](figures []rt.Figure[T, uint64], of *T) map[string]uint64 {
	stats := map[string]uint64{}
	for i := range figures {
		if v, ok := figures[i].Field(of).Get(); ok {
			stats[figures[i].Name] = v
		}
	}
	return stats
}
