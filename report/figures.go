package report

import (
	"time"

	"github.com/resource-tracker/rt"
)

// RunFigures are the figures of a run that a list of jobs uses. They are a part of its Summary and have
// the same names in JSON.
type RunFigures struct {
	Label       string          `json:"job"`
	Run         RunPart         `json:"run"`
	Abandoned   bool            `json:"abandoned"`
	ElapsedSecs rt.Opt[float64] `json:"elapsed_secs"`
	// SuspendedSecs is not in ElapsedSecs.
	SuspendedSecs rt.Opt[float64] `json:"suspended_secs,omitzero"`
	SlurmState    string          `json:"slurm_state,omitempty"`
	CPU           CPUPart         `json:"cpu"`
	Memory        MemoryPart      `json:"memory"`
	GPUs          []GPUPart       `json:"gpus,omitempty"`
	Record        RecordPart      `json:"record"`
}

// RunPart is the part of rt.Run in RunFigures.
type RunPart struct {
	rt.Identity
	User        string         `json:"user,omitempty"`
	Account     string         `json:"account,omitempty"`
	Partition   string         `json:"partition,omitempty"`
	NodeList    string         `json:"node_list,omitempty"`
	NumNodes    rt.Opt[uint64] `json:"num_nodes"`
	GPUs        string         `json:"gpus,omitempty"`
	JobStart    time.Time      `json:"job_start,omitzero"`
	JobEndLimit time.Time      `json:"job_end_limit,omitzero"`
	Meta        NamePart       `json:"meta"`
	PID         rt.Opt[uint64] `json:"pid"`
	rt.Ending
}

// NamePart is the part of rt.Metadata in RunFigures.
type NamePart struct {
	JobName string `json:"job_name,omitempty"`
}

// CPUPart is the part of CPU in RunFigures.
type CPUPart struct {
	Used
	AllocatedSecs rt.Opt[float64] `json:"allocated_secs"`
	UsedPct       rt.Opt[float64] `json:"used_pct"`
	Cores         rt.Opt[uint64]  `json:"cores"`
	CoresOf       string          `json:"cores_of"`
}

// MemoryPart is the part of Memory in RunFigures.
type MemoryPart struct {
	PeakMemory
	LimitBytes rt.Opt[uint64]  `json:"limit_bytes"`
	LimitOf    string          `json:"limit_of"`
	PeakPct    rt.Opt[float64] `json:"peak_pct"`
	OOMKills   rt.Opt[uint64]  `json:"oom_kills"`
}

// GPUPart is the part of GPU in RunFigures.
type GPUPart struct {
	InJob          rt.Opt[bool]    `json:"in_job"`
	BusyPct        rt.Opt[float64] `json:"busy_pct"`
	Processes      uint64          `json:"processes"`
	ProcessBusyPct rt.Opt[float64] `json:"process_busy_pct"`
}

// RecordPart is the part of Record in RunFigures.
type RecordPart struct {
	Readings int64     `json:"readings"`
	Last     time.Time `json:"last,omitzero"`
	Complete bool      `json:"complete"`
}

// Figures returns the figures that a list of jobs uses.
func (s *Summary) Figures() *RunFigures {
	r := &s.Run
	f := &RunFigures{
		Label: s.Label, Abandoned: s.Abandoned, ElapsedSecs: s.ElapsedSecs, SuspendedSecs: s.SuspendedSecs, SlurmState: s.SlurmState,
		Run: RunPart{
			Identity: r.Identity, User: r.User, Account: r.Account, Partition: r.Partition, NodeList: r.NodeList, NumNodes: r.NumNodes, GPUs: r.GPUs,
			JobStart: r.JobStart, JobEndLimit: r.JobEndLimit, Meta: NamePart{r.Meta.JobName}, PID: r.PID, Ending: r.Ending,
		},
		CPU:    CPUPart{s.CPU.Used, s.CPU.AllocatedSecs, s.CPU.UsedPct, s.CPU.Cores, s.CPU.CoresOf},
		Memory: MemoryPart{s.Memory.PeakMemory, s.Memory.LimitBytes, s.Memory.LimitOf, s.Memory.PeakPct, s.Memory.OOMKills},
		Record: RecordPart{int64(s.Record.Readings), s.Record.Last, s.Record.Complete},
	}
	for i := range s.GPUs {
		g := &s.GPUs[i]
		f.GPUs = append(f.GPUs, GPUPart{g.InJob, g.BusyPct, g.Processes, g.ProcessBusyPct})
	}
	return f
}

// Summary returns a summary that has only these figures.
func (f *RunFigures) Summary() *Summary {
	r := &f.Run
	s := &Summary{Label: r.Label(), Abandoned: f.Abandoned, ElapsedSecs: f.ElapsedSecs, SuspendedSecs: f.SuspendedSecs, SlurmState: f.SlurmState}
	s.Run.Identity, s.Run.Ending, s.Run.Meta.JobName = r.Identity, r.Ending, r.Meta.JobName
	s.Run.User, s.Run.Account, s.Run.Partition, s.Run.NodeList, s.Run.GPUs = r.User, r.Account, r.Partition, r.NodeList, r.GPUs
	s.Run.PID, s.Run.NumNodes, s.Run.JobStart, s.Run.JobEndLimit = r.PID, r.NumNodes, r.JobStart, r.JobEndLimit
	s.CPU.Used, s.CPU.AllocatedSecs, s.CPU.UsedPct, s.CPU.Cores, s.CPU.CoresOf = f.CPU.Used, f.CPU.AllocatedSecs, f.CPU.UsedPct, f.CPU.Cores, f.CPU.CoresOf
	s.Memory.PeakMemory, s.Memory.LimitBytes, s.Memory.LimitOf, s.Memory.PeakPct, s.Memory.OOMKills = f.Memory.PeakMemory, f.Memory.LimitBytes, f.Memory.LimitOf, f.Memory.PeakPct, f.Memory.OOMKills
	s.Record.Readings, s.Record.Last, s.Record.Complete = int(f.Record.Readings), f.Record.Last, f.Record.Complete
	for _, g := range f.GPUs {
		s.GPUs = append(s.GPUs, GPU{InJob: g.InJob, BusyPct: g.BusyPct, Processes: g.Processes, ProcessBusyPct: g.ProcessBusyPct})
	}
	return s
}
