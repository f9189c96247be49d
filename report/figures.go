package report

import (
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
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
	JobName string  `json:"job_name,omitempty"`
	Tags    TagPart `json:"tags,omitzero"`
}

// TagPart has the tag that slurm.BelieveArrays uses.
type TagPart struct {
	EnvironArray string `json:"environ_array,omitempty"`
}

// CPUPart is the part of CPU in RunFigures.
type CPUPart struct {
	Used
	AllocatedSecs rt.Opt[float64] `json:"allocated_secs"`
	UsedPct       rt.Opt[float64] `json:"used_pct"` // of AllocatedSecs
	Cores         rt.Opt[uint64]  `json:"cores"`    // what AllocatedSecs counts
	CoresOf       string          `json:"cores_of"` // "allocation" or "node"
}

// MemoryPart is the part of Memory in RunFigures.
type MemoryPart struct {
	PeakMemory                 // at most: it counts pages that processes share in each of them, because no PSS was read
	LimitBytes rt.Opt[uint64]  `json:"limit_bytes"`
	LimitOf    string          `json:"limit_of"` // "cgroup", "container": enforced; "allocation"; "node": its memory
	PeakPct    rt.Opt[float64] `json:"peak_pct"` // of LimitBytes
	OOMKills   rt.Opt[uint64]  `json:"oom_kills"`
}

// GPUPart is the part of GPU in RunFigures.
type GPUPart struct {
	InJob rt.Opt[bool] `json:"in_job"` // allocated to the job
	// BusyPct is the share of time in which it ran a kernel, see GPU.BusyOf. A busy GPU need not be efficient.
	BusyPct        rt.Opt[float64] `json:"busy_pct"`
	Processes      uint64          `json:"processes"` // that the driver reported on it
	ProcessBusyPct rt.Opt[float64] `json:"process_busy_pct"`
}

// RecordPart is the part of Record in RunFigures.
type RecordPart struct {
	Readings int       `json:"readings"` // taken
	Last     time.Time `json:"last,omitzero"`
	// Complete: from before the job's first process, or the command's start, to the last reading at its end.
	Complete bool `json:"complete"`
}

// Figures returns the figures that a list of jobs uses.
func (s *Summary) Figures() *RunFigures {
	r := &s.Run
	f := &RunFigures{
		Label: s.Label, Abandoned: s.Abandoned, ElapsedSecs: s.ElapsedSecs, SuspendedSecs: s.SuspendedSecs, SlurmState: s.SlurmState,
		Run: RunPart{
			Identity: r.Identity, User: r.User, Account: r.Account, Partition: r.Partition, NodeList: r.NodeList, NumNodes: r.NumNodes, GPUs: r.GPUs,
			JobStart: r.JobStart, JobEndLimit: r.JobEndLimit, Meta: NamePart{r.Meta.JobName, TagPart{r.Meta.Tags[slurm.EnvironArrayTag]}}, PID: r.PID, Ending: r.Ending,
		},
		CPU: s.CPU.CPUPart, Memory: s.Memory.MemoryPart, Record: s.Record.RecordPart,
	}
	for i := range s.GPUs {
		f.GPUs = append(f.GPUs, s.GPUs[i].GPUPart)
	}
	return f
}

// Summary returns a summary that has only these figures.
func (f *RunFigures) Summary() *Summary {
	r := &f.Run
	s := &Summary{Label: r.Label(), Abandoned: f.Abandoned, ElapsedSecs: f.ElapsedSecs, SuspendedSecs: f.SuspendedSecs, SlurmState: f.SlurmState}
	s.Run.Identity, s.Run.Ending, s.Run.Meta.JobName = r.Identity, r.Ending, r.Meta.JobName
	if task := r.Meta.Tags.EnvironArray; task != "" {
		s.Run.Meta.Tags = map[string]string{slurm.EnvironArrayTag: task}
	}
	s.Run.User, s.Run.Account, s.Run.Partition, s.Run.NodeList, s.Run.GPUs = r.User, r.Account, r.Partition, r.NodeList, r.GPUs
	s.Run.PID, s.Run.NumNodes, s.Run.JobStart, s.Run.JobEndLimit = r.PID, r.NumNodes, r.JobStart, r.JobEndLimit
	s.CPU.CPUPart, s.Memory.MemoryPart, s.Record.RecordPart = f.CPU, f.Memory, f.Record
	for _, g := range f.GPUs {
		s.GPUs = append(s.GPUs, GPU{GPUPart: g})
	}
	return s
}
