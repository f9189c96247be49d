package rt

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// State is the stage of a run.
type State string

// The states of a run.
const (
	StateRunning   State = "running"   // its tracker is alive, or died before it recorded the end
	StateEnded     State = "ended"     // the last snapshot is written, the file is closed
	StateDelivered State = "delivered" // a receiver confirmed all of it
)

// Outcome is how a run ended.
type Outcome string

// The outcomes of a run. In Slurm's Epilog a finished, a cancelled and a timed-out job all have 0:0. The outcome is
// then Unknown until another source distinguishes them.
const (
	OutcomeNone      Outcome = ""          // not ended
	OutcomeFinished  Outcome = "finished"  // ended with status 0
	OutcomeFailed    Outcome = "failed"    // ended with another status or by a signal
	OutcomeCancelled Outcome = "cancelled" // ended from outside before its time limit: cancelled, preempted or requeued
	OutcomeTimeout   Outcome = "timeout"   // reached its time limit
	OutcomeOOM       Outcome = "oom"       // killed for its memory
	OutcomeLost      Outcome = "lost"      // the tracker died before the run ended
	OutcomeUnknown   Outcome = "unknown"   // ended, but the outcome is not known
	// OutcomeTerminated means that Slurm ended the job, which is either OutcomeCancelled or
	// OutcomeTimeout: the node does not know the time limit. Accounting does.
	OutcomeTerminated Outcome = "terminated"
)

// outcomesByCertainty are the outcomes, the most certain last, see Certainty.
var outcomesByCertainty = []Outcome{
	OutcomeNone, OutcomeUnknown, OutcomeLost, OutcomeFinished, OutcomeFailed, OutcomeTerminated, OutcomeCancelled, OutcomeTimeout, OutcomeOOM,
}

// Certainty ranks the outcomes that the nodes of one job recorded, because one node can know more than another.
// OutcomeLost ranks low: a tracker that dies does not end the job.
func (o Outcome) Certainty() int { return max(0, slices.Index(outcomesByCertainty, o)) }

// Run is one attempt of one job (or step, or wrapped command) on one node.
// Empty strings and absent values are unknown. Some become known during the run, such as
// the job's name, or when accounting completes it, such as the ids of an array's task.
type Run struct {
	Identity
	Allocation
	Meta Metadata `json:"meta"`

	// How it was tracked.
	Command        []string    `json:"command,omitempty"`       // of a wrapped command
	PID            Opt[uint64] `json:"pid"`                     // root of the tracked process tree
	Interval       float64     `json:"interval_secs"`           // configured seconds between readings
	CgroupLayout   string      `json:"cgroup_layout,omitempty"` // which rule found the job's cgroup
	CgroupPath     string      `json:"cgroup_path,omitempty"`   // the directory that was read
	TrackerVersion string      `json:"tracker_version,omitempty"`

	Ending
}

// Identity has the fields that distinguish a run from all others.
type Identity struct {
	Cluster      string      `json:"cluster,omitempty"`
	JobID        Opt[uint64] `json:"job_id"` // Slurm's raw job id; absent outside a scheduler
	ArrayJobID   Opt[uint64] `json:"array_job_id"`
	ArrayTaskID  Opt[uint64] `json:"array_task_id"`
	HetJobID     Opt[uint64] `json:"het_job_id"`     // the leader's job id
	HetJobOffset Opt[uint64] `json:"het_job_offset"` // the component's number, from 0
	Step         string      `json:"step,omitempty"` // "0", "batch", "extern"; empty for a whole job
	Node         string      `json:"node"`           // the scheduler's name of the node, else the host's name
	Attempt      uint64      `json:"attempt"`        // SLURM_JOB_RESTART_COUNT at the Prolog; attempts can share a number
	SLUID        string      `json:"sluid,omitempty"`
	BootID       string      `json:"boot_id"` // /proc/sys/kernel/random/boot_id
	Start        time.Time   `json:"start"`   // when tracking began
}

// SameJob is the longest time between two runs of one job. A later attempt is an exception: a job can be held for
// months before it is requeued. Slurm uses the ids of jobs again.
const SameJob = 7 * 24 * time.Hour

// IsOfJob reports whether a run and a later one with the same job id can be of one job. They are of one user, and
// near in time or of different attempts.
func (r *Run) IsOfJob(later *Run) bool {
	if r.User != later.User && r.User != "" && later.User != "" {
		return false
	}
	ended := r.Start
	if r.End.After(ended) {
		ended = r.End
	}
	isNear := later.Start.Sub(ended) <= SameJob && r.Start.Sub(later.Start) <= SameJob
	isRequeued := later.Attempt > 0 && later.Attempt != r.Attempt
	return isNear || isRequeued
}

// Allocation describes the resources that the scheduler gave to the job, and its user.
type Allocation struct {
	Scheduler   string      `json:"scheduler,omitempty"` // "slurm", or empty
	User        string      `json:"user,omitempty"`
	UID         Opt[uint64] `json:"uid"`
	GID         Opt[uint64] `json:"gid"`
	Group       string      `json:"group,omitempty"`
	Account     string      `json:"account,omitempty"`
	Partition   string      `json:"partition,omitempty"`
	QOS         string      `json:"qos,omitempty"`
	Reservation string      `json:"reservation,omitempty"`
	NodeList    string      `json:"node_list,omitempty"` // a host list, n[1-2]
	NumNodes    Opt[uint64] `json:"num_nodes"`
	AllocCPUs   Opt[uint64] `json:"alloc_cpus"`     // CPUs of the job on this node
	AllocMem    Opt[uint64] `json:"alloc_mem"`      // bytes of memory of the job on this node
	GPUs        string      `json:"gpus,omitempty"` // SLURM_JOB_GPUS: the job's device indices on this node, or their UUIDs
	WorkDir     string      `json:"work_dir,omitempty"`
	Comment     string      `json:"comment,omitempty"`
	Constraints string      `json:"constraints,omitempty"`
	Licenses    string      `json:"licenses,omitempty"`
	StepTasks   Opt[uint64] `json:"step_tasks"`             // tasks of the step on all nodes
	JobStart    time.Time   `json:"job_start,omitzero"`     // from the scheduler, where its environment says so
	JobEndLimit time.Time   `json:"job_end_limit,omitzero"` // when the time limit ends the job
}

// Ending describes how a run ended.
type Ending struct {
	State         State      `json:"state"`
	Outcome       Outcome    `json:"outcome,omitempty"`
	OutcomeSource string     `json:"outcome_source,omitempty"` // where it is from: "epilog", "sacct", "exit", "kernel", "drain"
	ExitCode      Opt[int64] `json:"exit_code"`                // 0..255
	ExitSignal    Opt[int64] `json:"exit_signal"`              // the signal that ended it; 0 for none
	DerivedExit   Opt[int64] `json:"derived_exit"`             // highest exit code of the job's steps
	End           time.Time  `json:"end,omitzero"`             // of the job on this node
}

// Metadata has the fields of a run that a user can set, section 9.3 of the specification. The JSON names are from the
// Sentinel API.
type Metadata struct {
	JobName        string            `json:"job_name,omitempty"`
	ProjectName    string            `json:"project_name,omitempty"`
	StageName      string            `json:"stage_name,omitempty"`
	TaskName       string            `json:"task_name,omitempty"`
	Team           string            `json:"team,omitempty"`
	Env            string            `json:"env,omitempty"`
	Language       string            `json:"language,omitempty"`
	Orchestrator   string            `json:"orchestrator,omitempty"`
	Executor       string            `json:"executor,omitempty"`
	ExternalRunID  string            `json:"external_run_id,omitempty"`
	ContainerImage string            `json:"container_image,omitempty"`
	Tags           map[string]string `json:"tags,omitempty"`
}

// MetadataFields are the names of Metadata in the order of section 9.3, without Tags.
var MetadataFields = [...]string{
	"job_name", "project_name", "stage_name", "task_name", "team", "env", "language",
	"orchestrator", "executor", "external_run_id", "container_image",
}

// Field returns a pointer to the named field of section 9.3, nil for an unknown name.
func (m *Metadata) Field(name string) *string {
	for i, p := range [...]*string{
		&m.JobName, &m.ProjectName, &m.StageName, &m.TaskName, &m.Team, &m.Env, &m.Language,
		&m.Orchestrator, &m.Executor, &m.ExternalRunID, &m.ContainerImage,
	} {
		if MetadataFields[i] == name {
			return p
		}
	}
	return nil
}

// Merge sets the fields and tags of m that over has.
func (m *Metadata) Merge(over Metadata) {
	for _, name := range MetadataFields {
		if v := *over.Field(name); v != "" {
			*m.Field(name) = v
		}
	}
	for k, v := range over.Tags {
		if m.Tags == nil {
			m.Tags = make(map[string]string, len(over.Tags))
		}
		m.Tags[k] = v
	}
}

// Label is the job's id as users write it: "12"; "12_3" for an array task, even without its own id; "12.0" for a
// step. Outside a scheduler it is "-".
func (r *Identity) Label() string {
	s := "-"
	array, ok1 := r.ArrayJobID.Get()
	task, ok2 := r.ArrayTaskID.Get()
	if id, ok := r.JobID.Get(); ok1 && ok2 {
		s = fmt.Sprintf("%d_%d", array, task)
	} else if ok {
		s = fmt.Sprint(id)
	} else {
		return s
	}
	if r.Step != "" {
		s += "." + r.Step
	}
	return s
}

// Component is Slurm's name of a component of a heterogeneous job, "12+1"; empty for other jobs.
func (r *Identity) Component() string {
	job, ok1 := r.HetJobID.Get()
	offset, ok2 := r.HetJobOffset.Get()
	if !ok1 || !ok2 {
		return ""
	}
	return fmt.Sprintf("%d+%d", job, offset)
}

// ExternalRunID is the name of the run for a receiver that has no fields for nodes and
// attempts: <cluster>:<job>[_<array task>][.<step>]@<node>#<attempt>; empty
// outside a scheduler.
func (r *Identity) ExternalRunID() string {
	if !r.JobID.Valid() {
		return ""
	}
	return fmt.Sprintf("%s:%s@%s#%d", r.Cluster, r.Label(), r.Node, r.Attempt)
}

// FileStem is the name of the run's spool file without its suffix. It is readable and safe in a path. It is different
// for every attempt, because it ends in the start time in milliseconds.
func (r *Run) FileStem() string {
	kind := "run"
	if id, ok := r.JobID.Get(); ok {
		kind = fmt.Sprintf("job-%d", id)
		if r.Step != "" {
			kind += "." + safe(r.Step)
		}
	} else if r.ArrayJobID.Valid() && r.ArrayTaskID.Valid() {
		kind = "job-" + r.Label()
	} else if pid, ok := r.PID.Get(); ok {
		kind = fmt.Sprintf("run-%d", pid)
	}
	return fmt.Sprintf("%s-%s-%d", kind, safe(r.Node), r.Start.UnixMilli())
}

// safe replaces the characters of a name that are special in a path or a shell.
func safe(s string) string {
	if len(s) > 64 {
		s = s[:64]
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '+':
			return c
		}
		return '_'
	}, s)
}

// Exit describes how a job or a command ended, as far as that is known.
type Exit struct {
	Code    Opt[int64] `json:"exit_code"`    // 0..255
	Signal  Opt[int64] `json:"exit_signal"`  // 0 for none
	Derived Opt[int64] `json:"derived_exit"` // highest exit code of the job's steps
	Outcome Outcome    `json:"outcome,omitempty"`
	Source  string     `json:"outcome_source,omitempty"`
	Time    time.Time  `json:"time,omitzero"` // when it was read
}

// Apply sets the ending of the run.
func (r *Run) Apply(e Exit) {
	r.ExitCode, r.ExitSignal, r.DerivedExit = e.Code, e.Signal, e.Derived
	r.Outcome, r.OutcomeSource = e.Outcome, e.Source
	if r.End.IsZero() {
		r.End = e.Time
	}
}

// Host describes a machine, section 8 of the specification. It is collected once. Empty and absent fields are not
// known or suppressed. The JSON names are from the Sentinel API in the dialect of the specification.
type Host struct {
	HostID         string       `json:"host_id,omitempty"`
	HostName       string       `json:"host_name,omitempty"`
	HostIP         string       `json:"host_ip,omitempty"`
	HostAllocation string       `json:"host_allocation,omitempty"` // "dedicated" or "shared"
	VCPUs          Opt[uint64]  `json:"host_vcpus,omitzero"`
	CPUModel       string       `json:"host_cpu_model,omitempty"`
	MemoryMiB      Opt[uint64]  `json:"host_memory_mib,omitzero"`
	GPUModel       string       `json:"host_gpu_model,omitempty"`
	GPUCount       Opt[uint64]  `json:"host_gpu_count,omitzero"`
	GPUVRAMMiB     Opt[uint64]  `json:"host_gpu_vram_mib,omitzero"`
	StorageGB      Opt[float64] `json:"host_storage_gb,omitzero"` // 10^9 bytes

	CloudVendorID     string `json:"cloud_vendor_id,omitempty"`
	CloudAccountID    string `json:"cloud_account_id,omitempty"`
	CloudRegionID     string `json:"cloud_region_id,omitempty"`
	CloudZoneID       string `json:"cloud_zone_id,omitempty"`
	CloudInstanceType string `json:"cloud_instance_type,omitempty"`
}

// Event is one line of a run's quality ledger: a decision, a gap, the status of a
// sensor, a failure of the spool.
type Event struct {
	Time   time.Time `json:"time"`   // zero until it is stored: the time at which that happens
	Kind   string    `json:"kind"`   // "sensor", "gap", "spool", "tracker", "job", "drain", EventDelivery
	Name   string    `json:"name"`   // the subject: a sensor, a file
	Status string    `json:"status"` // sensors: "ok", "absent", "denied", "failed", "n/a"
	Detail string    `json:"detail,omitempty"`
}

// EventDelivery is the kind of the events that describe the delivery of a run to one receiver. They are the state of
// this delivery and no part of a run's record.
const EventDelivery = "delivery"

// DefaultEndpoint is the base URL of the public receiver (section 9.2.1 of the specification).
const DefaultEndpoint = "https://api.sentinel.sparecores.net"

// Registration is the state of a run at a receiver. It contains no secret: a process that
// resumes an upload requests new credentials.
type Registration struct {
	Endpoint        string    `json:"endpoint"`          // base URL of the API
	Dialect         string    `json:"dialect,omitempty"` // "spec" or "live": the one that was accepted
	Scope           Scope     `json:"scope,omitempty"`   // of its rows, from the first batch to the last
	RemoteID        string    `json:"run_id,omitempty"`  // the name of the run at the receiver
	UploadURIPrefix string    `json:"upload_uri_prefix,omitempty"`
	Record          bool      `json:"record,omitempty"`       // the receiver takes the complete record of a run
	RecordSeq       int64     `json:"record_seq,omitempty"`   // the last snapshot in the record that was sent while the run was tracked
	IntentAt        time.Time `json:"intent_at"`              // before the first request was sent
	RegisteredAt    time.Time `json:"registered_at,omitzero"` // when the response arrived
	// FinishIntentAt is set before the first finish is sent, and cleared if an answer shows that
	// nothing was done. While it is set, the receiver may have closed the run.
	FinishIntentAt time.Time `json:"finish_intent_at,omitzero"`
	FinishedAt     time.Time `json:"finished_at,omitzero"` // when the finish was confirmed
	// Attempts counts the requests that were sent. If there was more than one without a
	// response, the receiver can have a run that is not known here.
	Attempts int `json:"attempts"`
}

// Batch is one sealed upload: its rows and bytes never change.
type Batch struct {
	Number     int       `json:"number"`    // 1, 2, 3, ... within the run
	FirstSeq   int64     `json:"first_seq"` // the snapshots of its intervals:
	LastSeq    int64     `json:"last_seq"`  // each row is derived from snapshot n-1 and n
	Rows       int       `json:"rows"`
	Bytes      int64     `json:"bytes"`  // of the body, compressed
	SHA256     string    `json:"sha256"` // of the body, lower-case hexadecimal
	Key        string    `json:"key"`    // the full URI of the object
	SealedAt   time.Time `json:"sealed_at"`
	UploadedAt time.Time `json:"uploaded_at,omitzero"`
}
