package top

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// Frame is what there is to show at one moment.
type Frame struct {
	Time     time.Time // when it was looked
	Where    string    // what is looked at: a directory, a file, an address
	Jobs     []Job     // those that are running first, oldest first
	Older    int       // runs that are not in Jobs because they are of other days
	Pending  int       // runs that are still to be read: look again
	Problems []error   // of files that cannot be read
	Open     *Detail   // of the run that was asked for; nil where there is none
	Program  *Program  // of a program that broadcasts its own frames; nil where it is none
	Note     string    // what has happened to the source, for the last line
}

// Job is one run with its newest figures.
type Job struct {
	*rt.Run
	Path string `json:"path"`
	Live bool   `json:"live"` // its tracker is alive
	Figures

	// The last minutes for sparklines, in cores and bytes; absent where nothing was read.
	cores, memory []rt.Opt[float64]
}

// Figures are what a run used: of its job, else of the process tree of its command,
// else of the whole node. What was not read is absent.
type Figures struct {
	Read       rt.Opt[time.Time] `json:"time"`                // of the newest reading
	Cores      rt.Opt[float64]   `json:"cores"`               // in use in the last interval
	CPUSecs    rt.Opt[float64]   `json:"cpu_secs"`            // CPU time so far
	MeanCores  rt.Opt[float64]   `json:"cores_mean"`          // CPU time by the time that was tracked
	Memory     rt.Opt[uint64]    `json:"memory_bytes"`        // charged to the job, or resident
	Limit      rt.Opt[uint64]    `json:"memory_limit_bytes"`  // absent where there is none
	Unlimited  bool              `json:"memory_unlimited"`    // it was read that there is none
	ReadRate   rt.Opt[float64]   `json:"read_bytes_per_sec"`  // in the last interval
	WriteRate  rt.Opt[float64]   `json:"write_bytes_per_sec"` // in the last interval
	Processes  rt.Opt[uint64]    `json:"processes"`
	ElapsedSec float64           `json:"elapsed_secs"` // of the job on this node
}

// label is what a person calls the run by: its job, or else its file's name.
func (j *Job) label() string {
	if j.JobID.Valid() {
		return j.Label()
	}
	return strings.TrimSuffix(filepath.Base(j.Path), ".db")
}

// state is the run's state; a run whose tracker has died is neither running nor ended.
func (j *Job) state() string {
	switch {
	case j.State == rt.StateRunning && !j.Live:
		return "abandoned"
	case j.State != rt.StateRunning && j.Outcome != rt.OutcomeNone:
		return string(j.Outcome)
	}
	return string(j.State)
}

// elapsed is how long the job has run, or ran, on this node.
func (j *Job) elapsed(now time.Time) time.Duration {
	switch {
	case !j.End.IsZero():
		return j.End.Sub(j.Start)
	case j.Live:
		return now.Sub(j.Start)
	}
	return j.Read.Or(j.Start).Sub(j.Start)
}

// allocated is how many cores it may use: those of the job, else of the node.
func allocated(run *rt.Run, cur *rt.Snapshot) rt.Opt[uint64] {
	if run.AllocCPUs.Valid() || cur == nil {
		return run.AllocCPUs
	}
	return cur.Node.CPUs
}

// Detail is one run at one moment.
type Detail struct {
	Job   Job
	Steps []step        // those that have ended before as well
	First time.Time     // when the first reading was taken
	Last  time.Duration // from the first reading to the newest
	At    time.Duration // from the first reading to the moment
	Taken time.Duration // from the first reading to that which is shown
	Index int           // which reading that is, from 1
	Count int           // readings so far
	Prev  *rt.Snapshot  // nil where Cur is the first
	Cur   *rt.Snapshot  // nil where nothing was read

	Program *Program // what the job's program has broadcast of itself; nil where nothing was kept

	mine        cpuSet            // the CPUs that the job may use
	read, write []rt.Opt[float64] // as cores and memory of Job, bytes/s
}

// secs is the length of the interval that Cur ends.
func (d *Detail) secs() float64 {
	if d.Prev == nil || d.Cur == nil {
		return 0
	}
	return float64(d.Cur.Boot-d.Prev.Boot) / 1e9
}

// nodeSecs is secs for the node's devices, which another tracker of the node may
// have read some time before.
func (d *Detail) nodeSecs() float64 {
	if d.Prev == nil || d.Cur == nil {
		return 0
	}
	at := func(s *rt.Snapshot) int64 {
		if s.Node.ReadBoot != 0 {
			return s.Node.ReadBoot
		}
		return s.Boot
	}
	return float64(at(d.Cur)-at(d.Prev)) / 1e9
}

// step is one step or task, and whether it is over.
type step struct {
	rt.StepReading
	before *rt.StepReading // in the reading before; nil where it was not there
}

// perSecond is the growth of a counter over the interval; absent where it was not
// read twice or fell.
func perSecond(prev, cur rt.Opt[uint64], secs float64) rt.Opt[float64] {
	p, ok1 := prev.Get()
	c, ok2 := cur.Get()
	if !ok1 || !ok2 || c < p || secs <= 0 {
		return rt.None[float64]()
	}
	return rt.Some(float64(c-p) / secs)
}

// scaled is v times f.
func scaled(v rt.Opt[float64], f float64) rt.Opt[float64] {
	if x, ok := v.Get(); ok {
		return rt.Some(x * f)
	}
	return v
}

// toFloat is v as a float.
func toFloat(v rt.Opt[uint64]) rt.Opt[float64] {
	if x, ok := v.Get(); ok {
		return rt.Some(float64(x))
	}
	return rt.None[float64]()
}

// share is what part is of whole in percent; absent where whole is 0.
func share(part, whole rt.Opt[float64]) rt.Opt[float64] {
	p, ok1 := part.Get()
	w, ok2 := whole.Get()
	if !ok1 || !ok2 || w <= 0 {
		return rt.None[float64]()
	}
	return rt.Some(p / w * 100)
}
