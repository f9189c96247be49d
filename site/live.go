package site

import (
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

// The limits of a LiveReport.
const (
	MaxLiveReport = 1 << 20 // bytes
	MaxLiveRuns   = 1000
	MaxLiveRun    = 8 << 10 // bytes of JSON
)

// LiveReport is what a node reports of the runs that it has not delivered yet: those that run, and those that ended
// just now. A report replaces the one before.
type LiveReport struct {
	Cluster string    `json:"cluster"` // empty: not known
	Node    string    `json:"node"`    // name of the node in Slurm; the runs have the same
	Runs    []LiveRun `json:"runs"`
}

// LiveRun has the figures of a run so far. Run has its names and its state.
type LiveRun = report.RunFigures

// LiveAnswer is the answer to a LiveReport.
type LiveAnswer struct {
	Wanted []string `json:"wanted"` // names of runs whose readings someone wants to see: rt.Run.FileStem
}

// LastReading is when a job was last read; zero if that is not known.
func (j *JobRow) LastReading() (last time.Time) {
	for i := range j.Live {
		if at := j.Live[i].Record.Last; at.After(last) {
			last = at
		}
	}
	return last
}

// IsRunning reports whether the job runs on a node.
func (j *JobRow) IsRunning() bool { return j.State == rt.StateRunning }
