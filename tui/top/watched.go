package top

import (
	"cmp"
	"path/filepath"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// Frame is the state of the source at one moment.
type Frame struct {
	Time     time.Time // of the reading
	Where    string    // a directory, a file, an address
	Jobs     []Watched // the running ones first, oldest first
	Older    int       // runs that are not in Jobs because they are too old
	Pending  int       // runs that are still to be read by the next Read
	Denied   int       // files that this user may not read
	Problems []error   // of other files that cannot be read
	Open     *Detail   // of the open run; nil if there is none
	Program  *Program  // of a program that broadcasts frames; nil for a spool
	Note     string    // an event of the source, for the last line
}

// Watched is one run with its last figures.
type Watched struct {
	*rt.Run
	Path string `json:"path"`
	Live bool   `json:"live"` // its tracker is alive
	// partial is set if the run has not ended and its tracker is on another machine.
	partial bool
	Figures

	// The last minutes for sparklines, in cores and bytes; absent if nothing was read.
	cores, memory []rt.Opt[float64]
}

// Figures are what a run used: its job, else the process tree of its command, else the
// whole node. A figure that was not read is absent.
type Figures struct {
	Read       rt.Opt[time.Time] `json:"time"`                // of the newest reading
	Cores      rt.Opt[float64]   `json:"cores"`               // in use in the last interval
	CPUSecs    rt.Opt[float64]   `json:"cpu_secs"`            // CPU time so far
	MeanCores  rt.Opt[float64]   `json:"cores_mean"`          // CPU time over the tracked time
	Memory     rt.Opt[uint64]    `json:"memory_bytes"`        // charged to the job, or of the process tree
	IsAtMost   bool              `json:"memory_at_most"`      // Memory counts pages that processes share in each
	Peak       rt.Opt[uint64]    `json:"memory_peak_bytes"`   // highest so far: the kernel's, else of the readings
	Limit      rt.Opt[uint64]    `json:"memory_limit_bytes"`  // absent if there is none
	Unlimited  bool              `json:"memory_unlimited"`    // the reading had no limit
	ReadRate   rt.Opt[float64]   `json:"read_bytes_per_sec"`  // in the last interval
	WriteRate  rt.Opt[float64]   `json:"write_bytes_per_sec"` // in the last interval
	Processes  rt.Opt[uint64]    `json:"processes"`
	ElapsedSec float64           `json:"elapsed_secs"` // of the job on this node
}

// believeArrays gives the tasks of arrays the names that lists of jobs have.
func believeArrays(jobs []Watched) {
	runs := make([]*rt.Run, len(jobs))
	for i := range jobs {
		runs[i] = jobs[i].Run
	}
	slurm.BelieveArrays(runs, nil)
}

// label returns the name of the run for users: its job, else the name of its file.
func (j *Watched) label() string {
	if j.JobID.Valid() {
		return j.Label()
	}
	return strings.TrimSuffix(filepath.Base(j.Path), ".db")
}

// state returns the run's state. A run with a dead tracker is neither running nor ended.
func (j *Watched) state() string {
	switch {
	case j.State == rt.StateRunning && !j.Live && !j.partial:
		return "abandoned"
	case j.State != rt.StateRunning && j.Outcome != rt.OutcomeNone:
		return string(j.Outcome)
	}
	return string(j.State)
}

// elapsed returns the run time of the job on this node.
func (j *Watched) elapsed(now time.Time) time.Duration {
	switch {
	case !j.End.IsZero():
		return j.End.Sub(j.Start)
	case j.Live:
		return now.Sub(j.Start)
	}
	return j.Read.Or(j.Start).Sub(j.Start)
}

// Detail is one run at one moment.
type Detail struct {
	Job   Watched
	Steps []step        // with those that have ended
	First time.Time     // of the first reading
	Last  time.Duration // from the first reading to the last
	At    time.Duration // from the first reading to the moment
	Taken time.Duration // from the first reading to the shown one
	Index int           // of the shown reading, from 1
	Count int           // readings so far
	Prev  *rt.Snapshot  // nil if Cur is the first
	Cur   *rt.Snapshot  // nil if nothing was read

	Program *Program // broadcast of the job's program; nil if none was recorded

	mine        cpuSet            // the CPUs that the job may use
	read, write []rt.Opt[float64] // like cores and memory of Watched, bytes/s
}

// before returns the previous reading, without figures if there is none.
func (d *Detail) before() *rt.Snapshot {
	if d.Prev == nil {
		return &rt.Snapshot{}
	}
	return d.Prev
}

// secs returns the length of the interval that Cur ends.
func (d *Detail) secs() float64 {
	if d.Prev == nil || d.Cur == nil {
		return 0
	}
	return float64(d.Cur.Boot-d.Prev.Boot) / 1e9
}

// nodeSecs is secs for the node's devices, which another tracker of the node may have
// read earlier.
func (d *Detail) nodeSecs() float64 {
	if d.Prev == nil || d.Cur == nil {
		return 0
	}
	at := func(s *rt.Snapshot) int64 { return cmp.Or(s.Node.ReadBoot, s.Boot) }
	return float64(at(d.Cur)-at(d.Prev)) / 1e9
}

type step struct {
	rt.StepReading
	before *rt.StepReading // at the previous reading; without figures if it did not exist
}

// perSecond returns the growth of a counter per second; absent if it was not read twice
// or decreased.
func perSecond(prev, cur rt.Opt[uint64], secs float64) rt.Opt[float64] {
	if grown, ok := rt.Delta(prev, cur).Get(); ok && secs > 0 {
		return rt.Some(float64(grown) / secs)
	}
	return rt.None[float64]()
}

// share returns part in percent of whole; absent if whole is 0.
func share(part, whole rt.Opt[float64]) rt.Opt[float64] {
	p, w, ok := rt.Both(part, whole)
	if !ok || w <= 0 {
		return rt.None[float64]()
	}
	return rt.Some(p / w * 100)
}

// figures computes the figures of the interval that cur ends. prev is nil for the first reading,
// which has only gauges.
func figures(prev, cur *rt.Snapshot) Figures {
	f := Figures{Read: rt.Some(time.Unix(0, cur.Wall).UTC())}
	p := rt.DeriveProcess(prev, cur)
	switch {
	case cur.Job.Phase != rt.JobNone:
		f.Peak = cur.Job.MemPeak
		f.Memory, f.CPUSecs = cur.Job.MemCurrent, rt.Scaled(cur.Job.CPUUsage, 1e-6)
		f.setLimit(cur.Job.MemLimit)
	case cur.Tree.CPUUserTicks.Valid() || cur.Tree.RSS.Valid():
		f.Memory, f.IsAtMost = cur.Tree.Memory(&cur.Node)
		f.setLimit(cmp.Or(cur.Job.MemLimit, cur.Node.MemTotal)) // of its container
		if user, ok := cur.Tree.CPUUserTicks.Get(); ok && cur.Tree.CPUSystemTicks.Valid() {
			f.CPUSecs.Set(float64(user+cur.Tree.CPUSystemTicks.Or(0)) / rt.TicksPerSecond)
		}
	default: // the whole node
		s := rt.DeriveScalars(prev, cur, rt.ScopeNode)
		p.CPUUsage, p.DiskReadBytes, p.DiskWriteBytes, p.Children = s.CPUUsage, s.DiskReadBytes, s.DiskWriteBytes, s.Processes
		f.Memory = cur.Node.MemInUse()
		f.setLimit(cur.Node.MemTotal)
	}
	f.Processes = p.Children
	if prev == nil {
		return f
	}
	f.Cores = p.CPUUsage
	if secs := float64(cur.Boot-prev.Boot) / 1e9; secs > 0 {
		f.ReadRate = rt.Scaled(p.DiskReadBytes, 1/secs)
		f.WriteRate = rt.Scaled(p.DiskWriteBytes, 1/secs)
	}
	return f
}

func (f *Figures) setLimit(limit rt.Opt[uint64]) {
	if v, ok := limit.Get(); ok && v == rt.Unlimited {
		f.Unlimited = true
		return
	}
	f.Limit = limit
}

// setMean sets the mean over the time since the first reading.
func (f *Figures) setMean(d time.Duration) {
	if secs := d.Seconds(); secs > 0 {
		f.MeanCores = rt.Scaled(f.CPUSecs, 1/secs)
	}
}
