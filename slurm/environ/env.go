package environ

import (
	"bytes"
	"fmt"
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

// taskNames are used from a job's process, with TRACKER_* and the names of heterogeneous jobs.
var taskNames = []string{
	"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NAME", "SLURM_JOB_QOS",
	"SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
	"SLURM_HET_SIZE",
}

// MergeTaskEnv adds the environment of a process in the job's cgroup to a run of slurmd's Prolog.
// It reports whether the run changed. isBatch is true for the batch script: its name of the job
// replaces a step's name, which may be the step's own. The environment of another job is ignored.
// In a component of a heterogeneous job SLURM_JOB_ID is the leader's.
//
// sbatch passes on the environment of its caller, which may be a task of another job. slurmstepd
// replaces only the variables that the new job has. A variable that a job can lack (SLURM_ARRAY_*,
// SLURM_JOB_QOS, SLURM_JOB_RESERVATION, SLURM_MEM_PER_*, SLURM_STEP_ID) may therefore belong to any
// other job. MergeTaskEnv takes over only
//   - the array ids if SLURM_ARRAY_JOB_ID is the job's own id, as in the last task of an array:
//     no other job has that id, see setArray;
//   - the component of a job that is heterogeneous according to its Prolog: Slurm sets
//     SLURM_HET_SIZE and SLURM_JOB_ID_HET_GROUP_<n> of all its components;
//   - labels, which are the user's: SLURM_JOB_NAME, which sbatch and srun always set, and
//     TRACKER_* of section 9.3, which replace the scheduler's values. The tag user_fields names
//     the fields that TRACKER_* sets. Array ids and the QOS that could be another job's are
//     the tags environ_array and environ_qos.
//
// All else is from the Prolog or from accounting.
func MergeTaskEnv(run *rt.Run, env Env, isBatch bool) bool {
	env = taskEnv(env)
	id := env.Number("SLURM_JOB_ID", "SLURM_JOBID")
	isOurs := id == run.JobID || id == run.HetJobID
	if !id.Valid() || !isOurs {
		return false
	}
	before := *run
	slurm.Update(run, func(run *rt.Run) {
		if id == run.HetJobID && !run.HetJobOffset.Valid() {
			setHet(run, env)
		}
		setArray(run, env)
	})
	slurm.SetJobName(run, env.Text("SLURM_JOB_NAME"), isBatch)
	run.Meta.Merge(labels(run, env))
	mergeUser(run, env, maxTaskValue)
	return !reflect.DeepEqual(before, *run)
}

// mergeUser adds what TRACKER_* variables of at most limit bytes set, and the tag userFieldsTag.
func mergeUser(run *rt.Run, env Env, limit int) {
	meta := userMetadata(env, limit)
	tags := map[string]string{}
	if id := meta.ExternalRunID; id != "" && run.JobID.Valid() { // a label: the run has an identity
		meta.ExternalRunID, tags[userRunIDTag] = "", id
	}
	if fields := setFields(&meta); len(fields) > 0 {
		fields = append(fields, strings.Split(run.Meta.Tags[userFieldsTag], ",")...)
		slices.Sort(fields)
		fields = slices.DeleteFunc(slices.Compact(fields), func(name string) bool { return name == "" })
		tags[userFieldsTag] = strings.Join(fields, ",")
	}
	meta.Tags = tags
	run.Meta.Merge(meta)
}

// userFieldsTag names the fields of the metadata that the user has set. userRunIDTag has TRACKER_EXTERNAL_RUN_ID.
const (
	userFieldsTag = "user_fields"
	userRunIDTag  = "user_external_run_id"
)

// setFields returns the names of the fields that m has.
func setFields(m *rt.Metadata) (names []string) {
	for _, name := range rt.MetadataFields {
		if *m.Field(name) != "" {
			names = append(names, name)
		}
	}
	return names
}

// setArray sets the run's array ids from the environment of one of its processes if the array has
// the id of the job. Slurm gives the array's own id to its last task, and no id to two jobs.
func setArray(run *rt.Run, env Env) {
	array, task := env.Number("SLURM_ARRAY_JOB_ID"), env.Number("SLURM_ARRAY_TASK_ID")
	isOwn := array.Valid() && array == run.JobID
	if isOwn && task.Valid() && !run.ArrayJobID.Valid() {
		run.ArrayJobID, run.ArrayTaskID = array, task
	}
}

// labels returns the parts of the job's identity and accounting that the environment of a process
// has but does not prove.
func labels(run *rt.Run, env Env) rt.Metadata {
	tags := map[string]string{}
	hasLabel := func(tag string) bool { return run.Meta.Tags[tag] != "" } // the first process decides
	array, isArray := env.Number("SLURM_ARRAY_JOB_ID").Get()
	task, isTask := env.Number("SLURM_ARRAY_TASK_ID").Get()
	isUnproven := isArray && isTask && !run.ArrayJobID.Valid()
	if isUnproven && !hasLabel(slurm.EnvironArrayTag) {
		tags[slurm.EnvironArrayTag] = fmt.Sprintf("%d_%d", array, task)
	}
	if qos := env.Text("SLURM_JOB_QOS"); qos != "" && run.QOS == "" && !hasLabel(slurm.EnvironQOSTag) {
		tags[slurm.EnvironQOSTag] = qos
	}
	return rt.Metadata{Tags: tags}
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
	if strings.HasPrefix(name, "SLURM_JOB_ID_HET_GROUP_") {
		return true
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
