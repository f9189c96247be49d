// Package collect is the recorder loop: it reads its sources on a schedule that
// does not drift, follows the life of a watched job, and hands every snapshot to
// its sinks. What a source is, how a job is watched and where snapshots go is
// behind the small interfaces Source, Job, Sink and Ledger; the packages below
// it implement the first two from /proc, /sys and the cgroup file systems.
package collect

import "github.com/resource-tracker/rt"

// Source reads one part of a snapshot.
type Source interface {
	// Name is what the ledger calls it: "cpu", "memory".
	Name() string
	// Read fills the source's part of s, which is empty before. What cannot be
	// read stays absent. An error says that the source as a whole failed now; the
	// recorder asks again at the next reading.
	Read(s *rt.Snapshot) error
	// Close gives the descriptors back.
	Close() error
}

// Sink takes snapshots.
type Sink interface {
	// Put takes one snapshot. s and its slices are reused for the next one: a sink
	// copies what it keeps.
	Put(s *rt.Snapshot) error
}

// Ledger takes the events of a run: gaps, the status of sensors, decisions.
type Ledger interface {
	Event(e rt.Event)
}
