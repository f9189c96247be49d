package environ

import (
	"bytes"
	"cmp"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// Env has the values by name: the first of two entries counts, as in getenv(3).
type Env map[string]string

// NewEnv parses an environment in the form of os.Environ: NAME=value.
func NewEnv(environ []string) Env {
	env := make(Env, len(environ))
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if _, twice := env[name]; ok && !twice {
			env[name] = value
		}
	}
	return env
}

// MaxProcess limits, in bytes, how much is read of an environment, which the user writes.
const MaxProcess = 256 << 10

// ReadProcess returns the environment of a process for Parse: at most MaxProcess bytes
// of <procRoot>/<pid>/environ. It is empty until the process has executed its program.
// The result uses buf if buf is large enough.
func ReadProcess(procRoot string, pid int, buf []byte) ([]byte, error) {
	f, err := os.Open(filepath.Join(procRoot, strconv.Itoa(pid), "environ"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := bytes.NewBuffer(buf[:0])
	_, err = text.ReadFrom(io.LimitReader(f, MaxProcess))
	return text.Bytes(), err
}

// Parse parses an environment in the form of /proc/<pid>/environ: each NAME=value ends
// with a zero byte. A last variable that the limit of ReadProcess has cut is ignored.
func Parse(text []byte) Env {
	if len(text) >= MaxProcess {
		text = text[:max(bytes.LastIndexByte(text[:MaxProcess], 0), 0)]
	}
	return NewEnv(strings.Split(string(text), "\x00"))
}

// Text returns the first of the named variables that has a value. One that is too long or not
// printable counts as unset, because users choose some, and logs and databases show them. So
// does "(null)", which Slurm writes for no value.
func (e Env) Text(names ...string) string {
	for _, name := range names {
		if v := e[name]; v != "(null)" && slurm.Printable(v, slurm.MaxValue) {
			return v
		}
	}
	return ""
}

// Number returns the first of the named variables that has a decimal number. Slurm's marks
// for "no value" (2^32-2, 2^32-1, 2^64-2, 2^64-1) count as unset.
func (e Env) Number(names ...string) rt.Opt[uint64] {
	for _, name := range names {
		n, err := strconv.ParseUint(e[name], 10, 64)
		if err != nil || n == 1<<32-2 || n == 1<<32-1 || n >= 1<<64-2 {
			continue
		}
		return rt.Some(n)
	}
	return rt.None[uint64]()
}

// Time returns a variable in seconds since the epoch as a time, zero if it is unset or 0.
func (e Env) Time(name string) time.Time {
	n, ok := e.Number(name).Get()
	if !ok || n == 0 || n > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(n), 0).UTC()
}

// maxTaskValue limits a value of a task's environment, in bytes: the user writes it.
const maxTaskValue = 256

// taskNames are used from a job's process, with TRACKER_* and those of heterogeneous jobs.
var taskNames = []string{
	"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_STEP_ID", "SLURM_STEPID",
	"SLURM_JOB_NAME", "SLURM_JOB_QOS", "SLURM_JOB_RESERVATION",
	"SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME",
	"SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
	"SLURM_HET_SIZE", "SLURM_PACK_SIZE",
	"SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_GPUS_ON_NODE",
}

// MergeTaskEnv adds to a run of slurmd's Prolog what the environment of a process in the job's
// cgroup has, and reports whether that changed the run. Only variables on a list are used; the
// user's TRACKER_* of section 9.3 replace the scheduler's values. The environment of another
// job is ignored. In a component of a heterogeneous job SLURM_JOB_ID is the leader's. The batch
// script's name of the job replaces that of a step, which may be the step's own.
func MergeTaskEnv(run *rt.Run, env Env) bool {
	env = taskEnv(env)
	id := env.Number("SLURM_JOB_ID", "SLURM_JOBID")
	isOurs := id == run.JobID || id == run.HetJobID
	if !id.Valid() || !isOurs {
		return false
	}
	before := *run
	inStep := env.Text("SLURM_STEP_ID", "SLURM_STEPID") != ""
	slurm.Update(run, func(run *rt.Run) { setFromTask(run, env) })
	slurm.SetJobName(run, env.Text("SLURM_JOB_NAME"), !inStep)
	run.Meta.Merge(userMetadata(env, maxTaskValue))
	return !reflect.DeepEqual(before, *run)
}

// setFromTask sets the scheduler's fields that a Prolog's environment lacks.
func setFromTask(run *rt.Run, env Env) {
	array, task := env.Number("SLURM_ARRAY_JOB_ID"), env.Number("SLURM_ARRAY_TASK_ID")
	if !run.ArrayJobID.Valid() && array.Valid() && task.Valid() {
		run.ArrayJobID, run.ArrayTaskID = array, task
	}
	run.QOS = cmp.Or(run.QOS, env.Text("SLURM_JOB_QOS"))
	run.Reservation = cmp.Or(run.Reservation, env.Text("SLURM_JOB_RESERVATION"))
	if run.JobStart.IsZero() {
		run.JobStart = env.Time("SLURM_JOB_START_TIME")
	}
	if run.JobEndLimit.IsZero() {
		run.JobEndLimit = env.Time("SLURM_JOB_END_TIME")
	}
	if !run.HetJobOffset.Valid() {
		setHet(run, env)
	}
	if !run.AllocMem.Valid() {
		setMemory(run, env)
	}
}

// taskEnv returns the variables of a process's environment that are used.
func taskEnv(env Env) Env {
	env = maps.Clone(env)
	maps.DeleteFunc(env, func(name, value string) bool {
		return !isUsed(name) || !slurm.Printable(value, maxTaskValue)
	})
	return env
}

func isUsed(name string) bool {
	if slices.Contains(taskNames, name) {
		return true
	}
	for _, per := range [...]string{"SLURM_JOB_ID", "SLURM_MEM_PER_NODE"} {
		if strings.HasPrefix(name, per+"_HET_GROUP_") || strings.HasPrefix(name, per+"_PACK_GROUP_") {
			return true
		}
	}
	field, tracker := strings.CutPrefix(name, "TRACKER_")
	return tracker && slices.Contains(rt.MetadataFields[:], strings.ToLower(field))
}

// userMetadata returns the fields that TRACKER_* variables set.
func userMetadata(env Env, limit int) rt.Metadata {
	var m rt.Metadata
	for _, name := range rt.MetadataFields {
		if v := env["TRACKER_"+strings.ToUpper(name)]; slurm.Printable(v, limit) {
			*m.Field(name) = v
		}
	}
	return m
}
