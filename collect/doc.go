// Package collect takes the snapshots of a run. A Recorder reads its sources on a fixed
// schedule, follows the life of a watched job, and passes every snapshot to its sinks.
// Sources, the job, sinks and the ledger are the small interfaces Source, Job, Sink and
// Ledger. The packages below this one implement the first two from /proc, /sys and the
// cgroup file systems.
//
// A reading allocates nothing once the buffers have grown.
package collect

import "github.com/resource-tracker/rt"

// Source reads one part of a snapshot.
type Source interface {
	// Name identifies the source in the ledger: "cpu", "memory".
	Name() string
	// Read fills the source's part of s, which is empty before. A value that cannot
	// be read stays absent. An error means that the whole source failed this time;
	// the recorder reads it again for the next snapshot.
	Read(s *rt.Snapshot) error
	// Close closes the source's descriptors.
	Close() error
}

// Sink stores snapshots.
type Sink interface {
	// Put stores one snapshot. The recorder reuses s and its slices: a sink copies
	// what it keeps.
	Put(s *rt.Snapshot) error
}

// Ledger stores the events of a run: gaps, the status of sensors, decisions.
type Ledger interface {
	Event(e rt.Event)
}
