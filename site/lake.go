package site

import (
	"time"

	"github.com/resource-tracker/rt"
)

// Changed is a run that the lake does not have in its last version, or that the site has no more. Of the latter State and
// Changes are not known.
type Changed struct {
	ID      string
	Cluster string
	Start   time.Time
	Name    string // rt.Run.FileStem of its record
	Node    string
	JobID   rt.Opt[uint64]
	State   rt.State
	Changes int64 // since the lake has it
	Damage  error // of its row in the registry: Name, Node, JobID and State are not known; nil: none
}

// LakeState is what the lake lacks.
type LakeState struct {
	LastSuccess rt.Opt[time.Time] // of a pass; absent before the first one
	Unwritten   int64             // runs that it does not have in their last version
}
