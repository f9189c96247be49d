package sonar

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// envelope is one top-level object of the new format, the only one that Sonar writes from 0.17 on. Its types
// stand in https://github.com/NordicHPC/sonar/blob/main/doc/NEW-FORMAT.md. Fields that are zero are left out.
type envelope struct {
	Meta struct {
		Version string `json:"version"`
	} `json:"meta"`
	Data *struct {
		Type       string          `json:"type"`
		Attributes json.RawMessage `json:"attributes"`
	} `json:"data"`
	Errors []struct {
		Time   string `json:"time"`
		Detail string `json:"detail"`
	} `json:"errors"`
}

// records returns the data as records of the old formats. An envelope of the type "cluster" has none.
func (e *envelope) records() ([]Record, error) {
	version := clean(e.Meta.Version)
	if version == "" {
		return nil, errors.New("no version of the program in meta")
	}
	if e.Data == nil {
		return e.failures(version)
	}
	switch kind := e.Data.Type; kind {
	case "sample":
		return decodeAttributes(e.Data.Attributes, version, (*newSample).records)
	case "sysinfo":
		return decodeAttributes(e.Data.Attributes, version, (*newSysinfo).records)
	case "job", "jobs":
		return decodeAttributes(e.Data.Attributes, version, (*newJobs).records)
	case "cluster":
		return nil, nil
	default:
		return nil, fmt.Errorf("data of Sonar's new format with the unknown type %.40q: it is sample, sysinfo, job or cluster", kind)
	}
}

func decodeAttributes[T any](raw json.RawMessage, version string, records func(*T, string) ([]Record, error)) ([]Record, error) {
	var attributes T
	if err := json.Unmarshal(raw, &attributes); err != nil {
		return nil, fmt.Errorf("attributes: %w", err)
	}
	return records(&attributes, version)
}

func (e *envelope) failures(version string) ([]Record, error) {
	if len(e.Errors) == 0 {
		return nil, errors.New("neither data nor errors")
	}
	var out []Record
	for i := range e.Errors {
		f := &Failure{Version: version, Message: clean(e.Errors[i].Detail)}
		f.Timestamp, _ = parseTime(e.Errors[i].Time) // some writers leave it out
		if f.check() == nil {
			out = append(out, f)
		}
	}
	return out, nil
}

// integer is an unsigned integer of at most 52 bits.
type integer uint64

// UnmarshalJSON implements json.Unmarshaler.
func (n *integer) UnmarshalJSON(text []byte) error {
	v, err := parseInteger(string(text))
	*n = integer(v)
	return err
}

// extended is the format's unsigned integer that can be unset (0) or infinite (1); it is 2 more than its value.
type extended uint64

// UnmarshalJSON implements json.Unmarshaler.
func (n *extended) UnmarshalJSON(text []byte) error { return (*integer)(n).UnmarshalJSON(text) }

func (n extended) text(prefix string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "UNLIMITED"
	}
	return prefix + strconv.FormatUint(uint64(n-2), 10)
}

// fraction is a number of 0 or more.
type fraction float64

// UnmarshalJSON implements json.Unmarshaler.
func (n *fraction) UnmarshalJSON(text []byte) error {
	v, err := parseFloat(string(text))
	*n = fraction(v)
	return err
}

// newSample is SampleAttributes. Memory is in KiB, times are in seconds.
type newSample struct {
	Time    string `json:"time"`
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	System  struct {
		CPUs       []uint64 `json:"cpus"` // busy since boot
		GPUs       []newGPU `json:"gpus"`
		UsedMemory integer  `json:"used_memory"`
	} `json:"system"`
	Jobs []struct {
		Job       integer      `json:"job"`
		User      string       `json:"user"`
		Epoch     integer      `json:"epoch"`
		Processes []newProcess `json:"processes"`
	} `json:"jobs"`
}

type newGPU struct {
	GPU
	Index       integer  `json:"index"`
	State       extended `json:"performance_state"`
	Temperature int64    `json:"temperature"` // can be negative
}

type newProcess struct {
	ResidentMemory integer  `json:"resident_memory"` // private
	VirtualMemory  integer  `json:"virtual_memory"`  // data and stack
	Cmd            string   `json:"cmd"`
	PID            integer  `json:"pid"`
	ParentPID      integer  `json:"ppid"`
	CPUAvg         fraction `json:"cpu_avg"`
	CPUTime        integer  `json:"cpu_time"`
	RolledUp       integer  `json:"rolledup"`
	GPUs           []struct {
		Index      integer  `json:"index"`
		Util       fraction `json:"gpu_util"`
		Memory     integer  `json:"gpu_memory"`
		MemoryUtil fraction `json:"gpu_memory_util"`
	} `json:"gpus"`
}

func (a *newSample) records(version string) ([]Record, error) {
	at, err := parseTime(a.Time)
	if err != nil {
		return nil, err
	}
	gpus, err := newGPUs(a.System.GPUs)
	if err != nil {
		return nil, err
	}
	var out []Record
	for i := range a.Jobs {
		j := &a.Jobs[i]
		for k := range j.Processes {
			s := &Sample{
				Version: version, Cluster: clean(a.Cluster), Time: at, Host: clean(a.Node), User: cmp.Or(clean(j.User), NoInfo),
				Job: uint64(j.Job), Epoch: uint64(j.Epoch),
			}
			if err := j.Processes[k].fill(s); err != nil {
				return nil, fmt.Errorf("job %d: %w", s.Job, err)
			}
			if len(out) == 0 {
				s.Load, s.GPUInfo, s.MemUsedKiB = a.System.CPUs, gpus, uint64(a.System.UsedMemory)
			}
			if err := s.check(); err != nil {
				return nil, err
			}
			out = append(out, s)
		}
	}
	return out, nil
}

func (p *newProcess) fill(s *Sample) error {
	s.Cmd, s.PID, s.PPID = cmp.Or(clean(p.Cmd), NoInfo), uint64(p.PID), uint64(p.ParentPID)
	s.CPUPct, s.CPUTimeSec, s.RolledUp = float64(p.CPUAvg), uint64(p.CPUTime), uint64(p.RolledUp)
	s.CPUKiB, s.RSSAnonKiB = uint64(p.VirtualMemory), uint64(p.ResidentMemory)
	for i := range p.GPUs {
		g := &p.GPUs[i]
		if g.Index >= maxGPUs {
			return fmt.Errorf("a process uses GPU %d", g.Index)
		}
		s.GPUs.Indices = append(s.GPUs.Indices, uint32(g.Index))
		s.GPUPct += float64(g.Util)
		s.GPUMemPct += float64(g.MemoryUtil)
		s.GPUKiB += uint64(g.Memory)
	}
	slices.Sort(s.GPUs.Indices) // cards of two makers may have the same index
	s.GPUs.Indices = slices.Compact(s.GPUs.Indices)
	if s.GPUKiB > maxInteger {
		return errors.New("the memory on its GPUs has more than 52 bits")
	}
	return nil
}

// newGPUs returns the GPUs by index. An index that is missing has a GPU without UUID.
func newGPUs(list []newGPU) ([]GPU, error) {
	var out []GPU
	for i := range list {
		g := &list[i]
		if g.Index >= maxGPUs {
			return nil, fmt.Errorf("a GPU has the index %d", g.Index)
		}
		for len(out) <= int(g.Index) {
			out = append(out, GPU{})
		}
		g.Perf, g.TempC = g.State.text("P"), uint64(max(0, g.Temperature))
		g.UUID, g.Mode = clean(g.UUID), clean(g.Mode)
		if err := checkWritable(gpuColumns, &g.GPU, " of a GPU"); err != nil {
			return nil, err
		}
		out[g.Index] = g.GPU
	}
	return out, nil
}

// newSysinfo is SysinfoAttributes.
type newSysinfo struct {
	Time           string  `json:"time"`
	Node           string  `json:"node"`
	Sockets        integer `json:"sockets"`
	CoresPerSocket integer `json:"cores_per_socket"`
	ThreadsPerCore integer `json:"threads_per_core"`
	CPUModel       string  `json:"cpu_model"`
	Memory         integer `json:"memory"` // KiB
	Cards          []Card  `json:"cards"`
}

func (a *newSysinfo) records(version string) ([]Record, error) {
	at, err := parseTime(a.Time)
	if err != nil {
		return nil, err
	}
	const most = 1 << 16 // of each kind
	if a.Sockets > most || a.CoresPerSocket > most || a.ThreadsPerCore > most {
		return nil, errors.New("a host has not that many sockets or cores")
	}
	s := &Sysinfo{
		Version: version, Timestamp: at, Hostname: clean(a.Node), Description: clean(a.CPUModel),
		CPUCores: uint64(a.Sockets * a.CoresPerSocket * a.ThreadsPerCore),
		MemGB:    uint64(a.Memory) >> 20, MemKiB: uint64(a.Memory), GPUCards: uint64(len(a.Cards)),
	}
	if err := checkList(cardColumns, a.Cards, " of card "); err != nil {
		return nil, err
	}
	var memory uint64
	for i := range a.Cards {
		memory += a.Cards[i].MemSizeKiB
		cleanTexts(cardColumns, &a.Cards[i])
	}
	s.GPUInfo = a.Cards
	s.GPUMemGB = memory >> 20
	if err := s.check(); err != nil {
		return nil, err
	}
	return []Record{s}, nil
}

// newJobs is JobsAttributes.
type newJobs struct {
	Cluster string   `json:"cluster"`
	Jobs    []newJob `json:"slurm_jobs"`
}

type newJob struct {
	JobID        integer  `json:"job_id"`
	Step         string   `json:"job_step"`
	Name         string   `json:"job_name"`
	State        string   `json:"job_state"`
	ArrayJobID   integer  `json:"array_job_id"`
	ArrayTaskID  integer  `json:"array_task_id"`
	HetJobID     integer  `json:"het_job_id"`
	HetOffset    integer  `json:"het_job_offset"`
	User         string   `json:"user_name"`
	Account      string   `json:"account"`
	Submit       string   `json:"submit_time"`
	TimeLimit    extended `json:"time_limit"` // minutes
	Partition    string   `json:"partition"`
	Reservation  string   `json:"reservation"`
	Nodes        []string `json:"nodes"`
	Priority     extended `json:"priority"`
	Layout       string   `json:"distribution"`
	AllocTRES    string   `json:"allocated_resources"`
	ReqCPUs      integer  `json:"requested_cpus"`
	ReqMemory    integer  `json:"requested_memory_per_node"` // KiB
	ReqNodes     integer  `json:"requested_node_count"`
	Start        string   `json:"start_time"`
	Suspended    integer  `json:"suspend_time"` // seconds
	End          string   `json:"end_time"`
	ExitCode     integer  `json:"exit_code"`
	SacctFigures struct {
		AllocTRES    string  `json:"AllocTRES"`
		AveCPU       integer `json:"AveCPU"`
		AveDiskRead  integer `json:"AveDiskRead"`
		AveDiskWrite integer `json:"AveDiskWrite"`
		AveRSS       integer `json:"AveRSS"`
		AveVMSize    integer `json:"AveVMSize"`
		ElapsedRaw   integer `json:"ElapsedRaw"`
		MaxRSS       integer `json:"MaxRSS"`
		MaxVMSize    integer `json:"MaxVMSize"`
		MinCPU       integer `json:"MinCPU"`
		SystemCPU    integer `json:"SystemCPU"`
		UserCPU      integer `json:"UserCPU"`
	} `json:"sacct"`
}

func (a *newJobs) records(version string) ([]Record, error) {
	var out []Record
	for i := range a.Jobs {
		j := a.Jobs[i].job()
		j.Version, j.Cluster = version, clean(a.Cluster)
		if err := j.check(); err != nil {
			return out, fmt.Errorf("job number %d: %w", i+1, err)
		}
		out = append(out, j)
	}
	return out, nil
}

// job returns the job in the texts of sacct.
func (n *newJob) job() *JobRecord {
	number := func(v integer, unit string) string {
		if v == 0 {
			return ""
		}
		return strconv.FormatUint(uint64(v), 10) + unit
	}
	f := &n.SacctFigures
	j := &JobRecord{
		User: n.User, Account: n.Account, State: n.State, Start: n.Start, End: n.End, Submit: n.Submit, JobName: n.Name,
		TimelimitRaw: n.TimeLimit.text(""), Partition: n.Partition, Reservation: n.Reservation, NodeList: strings.Join(n.Nodes, ","),
		Priority: n.Priority.text(""), Layout: n.Layout, AllocTRES: cmp.Or(n.AllocTRES, f.AllocTRES),
		ReqCPUS: number(n.ReqCPUs, ""), ReqMem: number(n.ReqMemory, "K"), ReqNodes: number(n.ReqNodes, ""),
		Suspended: sacctTime(n.Suspended), ExitCode: number(n.ExitCode, ":0"), ElapsedRaw: number(f.ElapsedRaw, ""),
		AveCPU: sacctTime(f.AveCPU), MinCPU: sacctTime(f.MinCPU), SystemCPU: sacctTime(f.SystemCPU), UserCPU: sacctTime(f.UserCPU),
		AveDiskRead: number(f.AveDiskRead, "K"), AveDiskWrite: number(f.AveDiskWrite, "K"), AveRSS: number(f.AveRSS, "K"),
		AveVMSize: number(f.AveVMSize, "K"), MaxRSS: number(f.MaxRSS, "K"), MaxVMSize: number(f.MaxVMSize, "K"),
	}
	j.JobIDRaw = number(n.JobID, "")
	j.JobID = j.JobIDRaw
	switch {
	case n.JobID == 0: // check refuses it
	case n.ArrayJobID != 0:
		j.JobID = fmt.Sprintf("%d_%d", n.ArrayJobID, n.ArrayTaskID)
	case n.HetJobID != 0:
		j.JobID = fmt.Sprintf("%d+%d", n.HetJobID, n.HetOffset)
	}
	isStep := n.JobID != 0 && n.Step != ""
	if isStep {
		j.JobIDRaw, j.JobID = j.JobIDRaw+"."+n.Step, j.JobID+"."+n.Step
	}
	for _, text := range j.fields() {
		*text = clean(*text)
	}
	return j
}

// sacctTime returns seconds as sacct prints them: [days-]hours:minutes:seconds.
func sacctTime(seconds integer) string {
	if seconds == 0 {
		return ""
	}
	days, rest := seconds/86400, time.Duration(seconds%86400)*time.Second
	text := fmt.Sprintf("%02d:%02d:%02d", int(rest.Hours()), int(rest.Minutes())%60, int(rest.Seconds())%60)
	if days > 0 {
		text = fmt.Sprintf("%d-%s", days, text)
	}
	return text
}
