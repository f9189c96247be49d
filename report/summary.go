package report

import (
	"time"

	"github.com/resource-tracker/rt"
)

// Scope says to what the figures of a summary belong.
type Scope string

// The scopes of a summary: the narrowest that was read.
const (
	ScopeJob  Scope = "job"  // the job's cgroup on this node
	ScopeTree Scope = "tree" // a process and its descendants
	ScopeNode Scope = "node" // the whole node
)

// Summary is a run on one node in figures.
type Summary struct {
	Label       string          `json:"job"` // "12", "12_3", "12.0"; "-" outside a scheduler
	Run         rt.Run          `json:"run"`
	Scope       Scope           `json:"scope"`
	ElapsedSecs rt.Opt[float64] `json:"elapsed_secs"` // of the run, or of its readings if its end is not known; without SuspendedSecs
	// SuspendedSecs is how long the job was suspended: from accounting, or before that at least what the readings show.
	SuspendedSecs rt.Opt[float64] `json:"suspended_secs,omitzero"`
	// SlurmState is Slurm's own state where accounting has it and it says more than the outcome: "PREEMPTED",
	// "CANCELLED by root".
	SlurmState string     `json:"slurm_state,omitempty"`
	CPU        CPU        `json:"cpu"`
	Memory     Memory     `json:"memory"`
	IO         IO         `json:"io"`
	Network    Network    `json:"network"`
	Pressure   Pressure   `json:"pressure"`
	Faults     Faults     `json:"page_faults"`
	Processes  Processes  `json:"processes"`
	Steps      []Step     `json:"steps,omitempty"`
	OOM        []OOMKill  `json:"oom,omitempty"`
	GPUs       []GPU      `json:"gpus,omitempty"`
	Node       Node       `json:"node"`
	Energy     []Energy   `json:"energy,omitempty"`
	JobEnergy  *JobEnergy `json:"job_energy,omitempty"`
	// GemPBA is what the job's program reported, if its reports were stored. The package
	// that parses its format sets it.
	GemPBA *GemPBA `json:"gempba,omitempty"`
	Series Series  `json:"series"`
	Sacct  *Sacct  `json:"sacct,omitempty"` // if a drain has queried it
	// Nodes is what all runs of the job together used, if there are several.
	Nodes *Nodes `json:"nodes,omitempty"`
	// Damage is why the snapshots after the ones that the report covers cannot be read; empty:
	// all can be read. The reader of the file sets it.
	Damage string `json:"damage,omitempty"`
	// OfQueue is set if only the queue of Slurm has the run. It then stands for all nodes of the job, and has no figures.
	OfQueue bool `json:"-"`
	// RanSecs is how long the job has run as the queue of Slurm says. The figures end at the last reading, with ElapsedSecs.
	RanSecs rt.Opt[float64] `json:"-"`
	// SoFar is set if the queue of Slurm says that the run has ended, and the figures are those before its end.
	SoFar bool `json:"-"`
	// Partial is set if the readings are the part that a receiver has of a run that is not delivered: its address.
	Partial string `json:"partial,omitempty"`
	// Abandoned: the tracker has died, and no drain has closed the run yet. The reader of
	// the spool sets it.
	Abandoned bool                `json:"abandoned"`
	Record    Record              `json:"record"`
	Sensors   map[string]SensorIs `json:"sensors_not_ok"`
	// Others is what other sensors reported about the node and the job. The package that
	// parses their format sets it.
	Others []Sensor `json:"powerapi,omitempty"`

	energy energyRecord // of JobEnergy, for ShareEnergy
	// For the advice about cores.
	threads     []ThreadUse    // by CPU time
	allBusySecs float64        // see the function allBusySecs
	sample      *SampleFigures // of a run with nothing else; else nil
}

// SetArray sets the array ids that a copy of the run has.
func (s *Summary) SetArray(run *rt.Run) {
	if run.ArrayJobID.Valid() {
		s.Run.ArrayJobID, s.Run.ArrayTaskID = run.ArrayJobID, run.ArrayTaskID
		s.Label = s.Run.Label()
	}
}

// CPU is the processor time that was used.
type CPU struct {
	CPUPart
	UserSecs      rt.Opt[float64] `json:"user_secs"`
	SystemSecs    rt.Opt[float64] `json:"system_secs"`
	ThrottledSecs rt.Opt[float64] `json:"throttled_secs"`
	StepdSecs     rt.Opt[float64] `json:"slurmstepd_secs"` // in the job's cgroup, but not in UsedSecs
	MeanCores     rt.Opt[float64] `json:"mean_cores"`
	PeakCores     rt.Opt[float64] `json:"peak_cores"` // highest mean of one interval, not a peak
	// The CPUs and NUMA nodes that the job may use, as the kernel lists them: "0-3,8".
	AllowedCPUs string `json:"allowed_cpus,omitempty"`
	AllowedMems string `json:"allowed_mems,omitempty"`
	Reason      string `json:"reason,omitempty"`
}

// Memory is the memory that was used, in bytes. The parts are the highest readings of each
// and need not be of the same instant.
type Memory struct {
	MemoryPart
	PeakOf string `json:"peak_of"` // "kernel": every instant; "readings": the highest reading; "container": every instant, of all of it
	// TreePeak is the highest reading of the process tree, if PeakOf is "container".
	TreePeak PeakMemory `json:"tree,omitzero"`
	// PSSBytes is the highest reading of PSS, which counts shared pages once, if PeakBytes is not PSS.
	PSSBytes       rt.Opt[uint64] `json:"pss_bytes,omitzero"`
	AnonymousBytes rt.Opt[uint64] `json:"anonymous_bytes"`
	SharedBytes    rt.Opt[uint64] `json:"shared_bytes"` // tmpfs, /dev/shm, shared anonymous mappings
	FileBytes      rt.Opt[uint64] `json:"file_bytes"`   // page cache without SharedBytes
	// LargestProcessBytes is the highest resident memory of one process of a command, from
	// wait4(2). It includes processes that no reading has.
	LargestProcessBytes rt.Opt[uint64] `json:"largest_process_bytes,omitzero"`
	Reason              string         `json:"reason,omitempty"`
	PartsReason         string         `json:"parts_reason,omitempty"`
	OOMReason           string         `json:"oom_reason,omitempty"`
}

// IO is what was read from and written to block devices, in bytes.
type IO struct {
	ReadBytes  rt.Opt[uint64] `json:"read_bytes"`
	WriteBytes rt.Opt[uint64] `json:"write_bytes"`
	Of         string         `json:"of,omitempty"` // "processes": as they counted, because the io controller is off
	// Mark is AtLeast if Of is "processes", because a process that no process waits for leaves no trace, and if the
	// end was not read. Record.Remarks lists the cases that were noticed.
	Mark   Mark   `json:"mark,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Network is what the node received and sent during the run, in bytes. There is no such figure
// for a job.
type Network struct {
	RecvBytes rt.Opt[uint64] `json:"recv_bytes"`
	SentBytes rt.Opt[uint64] `json:"sent_bytes"`
	Scope     Scope          `json:"scope"` // always ScopeNode
	Reason    string         `json:"reason,omitempty"`
}

// Pressure is the time in which some tasks of the job, or all of them, waited, in seconds.
type Pressure struct {
	CPUSomeSecs    rt.Opt[float64] `json:"cpu_some_secs"`
	CPUFullSecs    rt.Opt[float64] `json:"cpu_full_secs"`
	MemorySomeSecs rt.Opt[float64] `json:"memory_some_secs"`
	MemoryFullSecs rt.Opt[float64] `json:"memory_full_secs"`
	IOSomeSecs     rt.Opt[float64] `json:"io_some_secs"`
	IOFullSecs     rt.Opt[float64] `json:"io_full_secs"`
	// The shares of the time between the readings in which some waited.
	CPUPct    rt.Opt[float64] `json:"cpu_pct"`
	MemoryPct rt.Opt[float64] `json:"memory_pct"`
	IOPct     rt.Opt[float64] `json:"io_pct"`
}

// Faults are the page faults of the job.
type Faults struct {
	All   rt.Opt[uint64] `json:"all"`
	Major rt.Opt[uint64] `json:"major"` // had to wait for a disk
}

// Processes is the number of processes at the same time. The numbers are lower bounds: the
// highest of the readings, and 1 if processes ran and none of the readings has one.
type Processes struct {
	Max        rt.Opt[uint64] `json:"max"`
	MaxThreads rt.Opt[uint64] `json:"max_threads"`   // without slurmstepd's
	Top        []Process      `json:"top,omitempty"` // by CPU time, then those largest in memory
	Reason     string         `json:"reason,omitempty"`
}

// Series are figures over time, in at most maxColumns columns of equal length. A column
// without a reading is null.
type Series struct {
	ColumnSecs  float64           `json:"column_secs"`
	Cores       []rt.Opt[float64] `json:"cores"`        // mean of each column
	MemoryBytes []rt.Opt[float64] `json:"memory_bytes"` // highest reading of each column
}

// Record says how complete the record is.
type Record struct {
	RecordPart
	Expected int       `json:"expected"` // with those that were missed or omitted
	Missed   int       `json:"missed"`   // not taken in time
	LeftOut  int       `json:"left_out"` // on purpose, to stay within the budget
	First    time.Time `json:"first,omitzero"`
	Gaps     int       `json:"gaps"`
	Tracker  Cost      `json:"tracker"`
	Budget   []string  `json:"budget,omitempty"` // what the tracker omitted to stay within it, and when
	// Sensors is the status of each sensor at the end, if the tracker recorded it.
	Sensors map[string]string `json:"sensors,omitempty"`
	// Remarks are clocks that were set, and contradictions.
	Remarks []string `json:"remarks,omitempty"`
	// Unseen is the number of other tasks of the run's step that continued on this node after the tracked task's end,
	// at Last. Their figures are not final.
	Unseen int `json:"unseen_tasks,omitempty"`
}

// SensorIs is the last status of a sensor that failed.
type SensorIs struct {
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// Sensor summarizes the stored reports of another program, of one kind and for one target. In
// a run of a tracker these values are not part of the other figures.
type Sensor struct {
	Sensor    string          `json:"sensor"`
	Target    string          `json:"target"` // name of a cgroup or job in the sensor; "all": the node
	Kind      string          `json:"kind"`   // "hwpc", "power", "procfs"
	Reports   int             `json:"reports"`
	MeanWatts rt.Opt[float64] `json:"mean_watts"`   // of kind power
	Joules    rt.Opt[float64] `json:"joules"`       // of kind hwpc, if RAPL was counted: packages and memory
	MeanPct   rt.Opt[float64] `json:"mean_cpu_pct"` // of kind procfs, of the node's CPUs
}

// GemPBA is what a GemPBA program of the job reported, in its stored lines. Its workers can be on several nodes.
type GemPBA struct {
	Lines      int             `json:"lines"`
	Hosts      int             `json:"hosts"` // most at once
	TasksLocal rt.Opt[uint64]  `json:"tasks_local"`
	TasksSent  rt.Opt[uint64]  `json:"tasks_sent"`
	TasksRecv  rt.Opt[uint64]  `json:"tasks_recv"`
	MaxRunning rt.Opt[uint64]  `json:"max_running"` // tasks at once, of all workers
	MaxPending rt.Opt[uint64]  `json:"max_pending"` // requests that waited at once, of all workers
	IdlePct    rt.Opt[float64] `json:"idle_pct"`    // of the workers' thread pools, mean over the time between their lines
	SentBytes  uint64          `json:"sent_bytes"`  // between workers
	SentCount  uint64          `json:"sent_count"`
	Workers    []GemPBAWorker  `json:"workers"` // by their ids
	Edges      []GemPBAEdge    `json:"edges"`   // those with most bytes
}

// GemPBAWorker is what one worker did, also before its reports were stored.
type GemPBAWorker struct {
	ID         uint32          `json:"worker_id"`
	Host       string          `json:"hostname"` // empty if the program did not report it
	TasksLocal rt.Opt[uint64]  `json:"tasks_local"`
	TasksSent  rt.Opt[uint64]  `json:"tasks_sent"`
	TasksRecv  rt.Opt[uint64]  `json:"tasks_recv"`
	IdlePct    rt.Opt[float64] `json:"idle_pct"`
}

// GemPBAEdge is what one worker sent to another one.
type GemPBAEdge struct {
	From  uint32 `json:"from"`
	To    uint32 `json:"to"`
	Bytes uint64 `json:"bytes"`
	Count uint64 `json:"count"`
}
