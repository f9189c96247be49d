package environ

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

func TestOutsideSlurm(t *testing.T) {
	for _, env := range []Env{{}, {"PATH": "/bin"}, {"SLURM_JOB_ID": "0"}, {"SLURM_JOB_ID": "x"}, {"SLURM_JOB_ID": "4294967294"}} {
		if _, err := FromHook(env, began); !errors.Is(err, ErrNoJob) {
			t.Errorf("FromHook of %v: %v", env, err)
		}
		if _, err := FromTask(env, "", began); !errors.Is(err, ErrNoJob) {
			t.Errorf("FromTask of %v: %v", env, err)
		}
	}
}

func TestNewEnv(t *testing.T) {
	env := NewEnv([]string{"A=1", "A=2", "B", "C=x=y", "D="})
	want := Env{"A": "1", "C": "x=y", "D": ""}
	if d := cmp.Diff(want, env); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// What versions after 22.05 add, see env-by-version in the documentation of Slurm's sources.
func TestLaterVersions(t *testing.T) {
	env := Env{
		"SLURM_SCRIPT_CONTEXT": "prolog_slurmd", "SLURM_JOB_ID": "77", "SLURMD_NODENAME": "c05", "SLURM_CLUSTER_NAME": "big",
		"SLURM_JOB_NODELIST": "c[04-06]", "SLURM_JOB_CPUS_PER_NODE": "128,64(x2)", "SLURM_JOB_NUM_NODES": "3",
		"SLURM_JOB_START_TIME": "1795168800", "SLURM_JOB_END_TIME": "1795172400",
		"SLURM_JOB_LICENSES": "matlab:1", "SLURM_JOB_QOS": "high", "SLURM_JOB_RESERVATION": "maint", "SLURM_JOB_CONSTRAINTS": "a100",
		"SLURM_JOB_SLUID": "s0123456789ABC", "SLURM_JOB_RESTART_COUNT": "2", "SLURM_JOB_PARTITION": "gpu", "SLURM_JOB_ACCOUNT": "phys",
	}
	run, err := FromHook(env, began)
	if err != nil {
		t.Fatal(err)
	}
	slurm.Describe(&run)
	start := time.Unix(1795168800, 0).UTC()
	want := rt.Run{
		Identity: rt.Identity{Cluster: "big", JobID: rt.Some[uint64](77), Node: "c05", Attempt: 2, SLUID: "s0123456789ABC", Start: began},
		Allocation: rt.Allocation{
			Scheduler: "slurm", Account: "phys", Partition: "gpu", QOS: "high", Reservation: "maint", NodeList: "c[04-06]",
			NumNodes: rt.Some[uint64](3), AllocCPUs: rt.Some[uint64](64), Constraints: "a100", Licenses: "matlab:1",
			JobStart: start, JobEndLimit: start.Add(time.Hour),
		},
		Meta: rt.Metadata{
			ProjectName: "phys", Team: "phys", Orchestrator: "slurm", Executor: "big/gpu", ExternalRunID: "big:77@c05#2",
			Tags: map[string]string{
				"slurm_job_id": "77", "slurm_account": "phys", "slurm_partition": "gpu", "slurm_qos": "high", "slurm_reservation": "maint",
				"slurm_nodelist": "c[04-06]", "slurm_num_nodes": "3", "slurm_cpus": "64", "slurm_constraints": "a100",
				"slurm_licenses": "matlab:1", "slurm_sluid": "s0123456789ABC",
			},
		},
		Ending: rt.Ending{State: rt.StateRunning},
	}
	opt := cmp.Comparer(func(a, b rt.Opt[uint64]) bool { return a == b })
	signed := cmp.Comparer(func(a, b rt.Opt[int64]) bool { return a == b })
	if d := cmp.Diff(want, run, opt, signed); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// In the Epilog SLURM_JOB_END_TIME is when the job ended, not its limit.
	env["SLURM_SCRIPT_CONTEXT"] = "epilog_slurmd"
	if run, err = FromHook(env, began); err != nil || !run.JobEndLimit.IsZero() {
		t.Errorf("an Epilog's limit is %v, %v", run.JobEndLimit, err)
	}
}

// Slurm numbers divided GPUs in its own order; a hook's UUIDs identify the devices.
func TestGPUsByUUID(t *testing.T) {
	for devices, want := range map[string]string{
		"MIG-1c1d,MIG-2e2f": "MIG-1c1d,MIG-2e2f", "GPU-aa": "GPU-aa", "0,1": "0,3", "": "0,3", "MIG-1c1d,1": "0,3", "NoDevFiles": "0,3",
	} {
		env := Env{"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "SLURM_JOB_GPUS": "0,3", "CUDA_VISIBLE_DEVICES": devices}
		run, err := FromHook(env, began)
		slurm.Describe(&run)
		if err != nil || run.GPUs != want || run.Meta.Tags["slurm_gpus"] != want {
			t.Errorf("of %q: %q, %v, %v", devices, run.GPUs, run.Meta.Tags, err)
		}
		if run, err = FromTask(env, "batch", began); err != nil || run.GPUs != "0,3" { // it may be of some of the job's devices
			t.Errorf("of a task's %q: %q, %v", devices, run.GPUs, err)
		}
	}
}

func TestStepOf(t *testing.T) {
	for id, want := range map[string]string{
		"0": "0", "17": "17", "4294967290": "interactive", "4294967291": "batch", "4294967292": "extern", "": "batch", "../x": "",
	} {
		if got := stepOf(Env{"SLURM_STEP_ID": id}, "n1"); got != want {
			t.Errorf("step %q is %q, want %q", id, got, want)
		}
	}
	if got := stepOf(Env{}, ""); got != "" {
		t.Errorf("the step of salloc's shell on a login node is %q", got)
	}
}

// prologRun is the run of a Prolog of job 12.
func prologRun(t testing.TB, more Env) rt.Run {
	t.Helper()
	env := Env{"SLURM_JOB_ID": "12", "SLURMD_NODENAME": "n1", "SLURM_CLUSTER_NAME": "lab", "SLURM_JOB_ACCOUNT": "acct", "SLURM_JOB_CPUS_PER_NODE": "2"}
	maps.Copy(env, more)
	run, err := FromHook(env, began)
	if err != nil {
		t.Fatal(err)
	}
	slurm.Describe(&run)
	return run
}

func TestMergeTaskEnv(t *testing.T) {
	tests := []struct {
		name    string
		prolog  Env
		environ Env
		changed bool
		check   func(*rt.Run) bool
	}{
		{"name", nil, Env{"SLURM_JOB_ID": "12", "SLURM_JOB_NAME": "train"}, true,
			func(r *rt.Run) bool { return r.Meta.JobName == "train" && r.Meta.Tags["slurm_job_name"] == "train" }},
		{"another job", nil, Env{"SLURM_JOB_ID": "13", "SLURM_JOB_NAME": "train"}, false,
			func(r *rt.Run) bool { return r.Meta.JobName == "" }},
		{"no job", nil, Env{"SLURM_JOB_NAME": "train"}, false, func(r *rt.Run) bool { return r.Meta.JobName == "" }},
		{"component under its leader's id", Env{"SLURM_HET_JOB_ID": "11"},
			Env{"SLURM_JOB_ID": "11", "SLURM_JOB_NAME": "h", "SLURM_HET_SIZE": "2", "SLURM_JOB_ID_HET_GROUP_0": "11", "SLURM_JOB_ID_HET_GROUP_1": "12"}, true,
			func(r *rt.Run) bool { return r.HetJobOffset == rt.Some[uint64](1) && r.Meta.JobName == "h" }},
		{"the user's metadata is used", nil, Env{"SLURM_JOB_ID": "12", "SLURM_JOB_NAME": "train", "TRACKER_JOB_NAME": "mine", "TRACKER_TEAM": "us", "TRACKER_ENV": "prod"}, true,
			func(r *rt.Run) bool {
				return r.Meta.JobName == "mine" && r.Meta.Team == "us" && r.Meta.Env == "prod" && r.Meta.ProjectName == "acct" &&
					r.Meta.Tags[userFieldsTag] == "env,job_name,team"
			}},
		{"not on the list", nil, Env{"SLURM_JOB_ID": "12", "SLURM_JOB_ACCOUNT": "other", "SLURM_JOB_USER": "root", "TRACKER_HOST_IP": "0", "LD_PRELOAD": "x", "SLURM_CLUSTER_NAME": "x"}, false,
			func(r *rt.Run) bool { return r.Account == "acct" && r.User == "" && r.Cluster == "lab" }},
		{"control characters", nil, Env{"SLURM_JOB_ID": "12", "SLURM_JOB_NAME": "a\x1b[2Jb", "TRACKER_TEAM": "x\ny"}, false,
			func(r *rt.Run) bool { return r.Meta.JobName == "" && r.Meta.Team == "acct" }},
		{"not UTF-8", nil, Env{"SLURM_JOB_ID": "12", "SLURM_JOB_NAME": "a\xff"}, false, func(r *rt.Run) bool { return r.Meta.JobName == "" }},
		{"too long", nil, Env{"SLURM_JOB_ID": "12", "SLURM_JOB_NAME": strings.Repeat("x", 257)}, false, func(r *rt.Run) bool { return r.Meta.JobName == "" }},
		{"just short enough", nil, Env{"SLURM_JOB_ID": "12", "SLURM_JOB_NAME": strings.Repeat("x", 256)}, true, func(r *rt.Run) bool { return len(r.Meta.JobName) == 256 }},
		{"beyond the limit", nil, Parse([]byte("SLURM_JOB_ID=12\x00X=" + strings.Repeat("y", MaxProcess) + "\x00SLURM_JOB_NAME=late\x00")), false,
			func(r *rt.Run) bool { return r.Meta.JobName == "" }},
		{"half of an array", nil, Env{"SLURM_JOB_ID": "12", "SLURM_ARRAY_JOB_ID": "10"}, false, func(r *rt.Run) bool { return !r.ArrayJobID.Valid() }},
		{"the last task of an array", nil, Env{"SLURM_JOB_ID": "12", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "0"}, true,
			func(r *rt.Run) bool { return r.Meta.ExternalRunID == "lab:12_0@n1#0" && r.Meta.TaskName == "0" }},
		{"the array's own id of a component's leader", Env{"SLURM_HET_JOB_ID": "11"}, Env{"SLURM_JOB_ID": "11", "SLURM_ARRAY_JOB_ID": "11", "SLURM_ARRAY_TASK_ID": "0"}, true,
			func(r *rt.Run) bool { return !r.ArrayJobID.Valid() && r.Meta.Tags[slurm.EnvironArrayTag] == "11_0" }},
		{"empty", nil, nil, false, func(*rt.Run) bool { return true }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := prologRun(t, tt.prolog)
			if got := MergeTaskEnv(&run, tt.environ, true); got != tt.changed {
				t.Errorf("changed: %v, want %v", got, tt.changed)
			}
			if !tt.check(&run) {
				t.Errorf("the run is %+v", run)
			}
		})
	}
}

// The order in which a job's processes are found does not matter. The batch script's name of the
// job replaces a step's name, and a user's name replaces both.
func TestMergeTaskEnvOrder(t *testing.T) {
	// A batch script that was submitted from a step of another job has the number of that step.
	batch := Env{"SLURM_JOB_ID": "12", "SLURM_JOB_NAME": "job", "SLURM_STEP_ID": "0"}
	isBatch := func(e Env) bool { return e["SLURM_JOB_NAME"] == "job" }
	step := Env{"SLURM_JOB_ID": "12", "SLURM_JOB_NAME": "step", "SLURM_STEP_ID": "0"}
	users := Env{"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "1", "TRACKER_JOB_NAME": "users", "TRACKER_EXTERNAL_RUN_ID": "x-1"}
	array := Env{"SLURM_JOB_ID": "12", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3"}
	for _, order := range [][]Env{{batch, step}, {step, batch}} {
		run := prologRun(t, nil)
		shared := maps.Clone(run.Meta.Tags)
		first := run
		for _, e := range order {
			MergeTaskEnv(&run, e, isBatch(e))
		}
		if run.Meta.JobName != "job" {
			t.Errorf("job name %q, want that of the batch script", run.Meta.JobName)
		}
		if !maps.Equal(first.Meta.Tags, shared) {
			t.Error("an earlier copy of the run was changed")
		}
	}
	for _, order := range [][]Env{{batch, users, array}, {users, array, batch, step}, {array, users, step, batch}} {
		run := prologRun(t, nil)
		for _, e := range order {
			MergeTaskEnv(&run, e, isBatch(e))
		}
		if run.Meta.JobName != "users" || run.Meta.Tags["user_external_run_id"] != "x-1" || run.Meta.ExternalRunID != run.ExternalRunID() || run.Meta.TaskName != "3" || run.Meta.Tags["slurm_job_name"] == "" {
			t.Errorf("the user's names became %+v", run.Meta)
		}
	}
}

// inherited is the environment of the batch script of job 12. The script was submitted from a step
// of an array task in a heterogeneous job, and sbatch passed on the environment of that step.
var inherited = Env{
	"SLURM_JOB_ID": "12", "SLURM_JOB_NAME": "child", "SLURMD_NODENAME": "n1", "SLURM_CLUSTER_NAME": "lab", "SLURM_STEP_ID": "3", "SLURM_STEP_NUM_TASKS": "8",
	"SLURM_ARRAY_JOB_ID": "1", "SLURM_ARRAY_TASK_ID": "7", "SLURM_JOB_QOS": "gold", "SLURM_JOB_RESERVATION": "maint", "SLURM_MEM_PER_NODE": "777",
	"SLURM_JOB_START_TIME": "1795168800", "SLURM_JOB_END_TIME": "1795172400",
	"SLURM_HET_SIZE": "2", "SLURM_JOB_ID_HET_GROUP_0": "1", "SLURM_JOB_ID_HET_GROUP_1": "12", "SLURM_JOB_NODELIST_HET_GROUP_0": "n1", "SLURM_JOB_NODELIST_HET_GROUP_1": "n2",
	"SLURM_JOB_ACCOUNT_HET_GROUP_0": "parents",
}

// A job keeps its own identity and allocation whatever environment it was submitted with.
func TestInheritedIdentity(t *testing.T) {
	prolog := prologRun(t, nil)
	merged := prologRun(t, nil)
	MergeTaskEnv(&merged, inherited, true)
	task, err := FromTask(inherited, "batch", began)
	if err != nil {
		t.Fatal(err)
	}
	opt := cmp.Comparer(func(a, b rt.Opt[uint64]) bool { return a == b })
	if d := cmp.Diff(prolog.Identity, merged.Identity, opt); d != "" {
		t.Errorf("identity (-Prolog +merged):\n%s", d)
	}
	if d := cmp.Diff(prolog.Allocation, merged.Allocation, opt); d != "" {
		t.Errorf("allocation (-Prolog +merged):\n%s", d)
	}
	want := prolog.Identity
	want.Step = "batch"
	if d := cmp.Diff(want, task.Identity, opt); d != "" {
		t.Errorf("identity of FromTask (-want +got):\n%s", d)
	}
	if d := cmp.Diff(rt.Allocation{Scheduler: "slurm"}, task.Allocation, opt); d != "" {
		t.Errorf("allocation of FromTask (-want +got):\n%s", d)
	}
	for _, run := range []rt.Run{merged, task} {
		if m := run.Meta; m.Tags[slurm.EnvironArrayTag] != "1_7" || m.Tags[slurm.EnvironQOSTag] != "gold" || m.JobName != "child" || m.TaskName != run.Step {
			t.Errorf("the labels are %+v", m)
		}
	}
}

// The attempt, the GPUs and the variables of the hooks do not come from the job that submitted this
// one.
func TestInheritedAllocation(t *testing.T) {
	parents := Env{
		"SLURM_RESTART_COUNT": "2", "SLURM_JOB_COMMENT": "c", "SLURM_JOB_CONSTRAINTS": "a100", "SLURM_JOB_LICENSES": "matlab:1",
		"TRACKER_TEAM": "us", "TRACKER_ENV": "prod",
	}
	for _, tt := range []struct{ name, step, job, ofStep, want, label string }{
		{"batch", "batch", "0,1", "", "0,1", ""},
		{"batch of a step of another job", "batch", "0,1", "5", "0,1", ""},
		{"batch without GPUs", "batch", "", "5", "", "5"},
		{"shell of salloc", "interactive", "2", "5", "2", ""},
		{"step", "3", "0,1", "0,1", "0,1", ""},
		{"step that srun started without a job", "3", "", "1", "1", ""},
		{"step without GPUs", "3", "0,1", "", "", "0,1"},
		{"step with a part, or in a job of srun", "3", "0,1", "1", "", "0,1"},
		{"step that is not known", "", "0,1", "0,1", "", "0,1"},
		{"extern", "extern", "0", "0", "", "0"},
		{"nothing", "batch", "", "", "", ""},
	} {
		env := maps.Clone(parents)
		maps.Copy(env, Env{"SLURM_JOB_ID": "12", "SLURMD_NODENAME": "n1", "SLURM_JOB_GPUS": tt.job, "SLURM_STEP_GPUS": tt.ofStep})
		run, err := FromTask(env, tt.step, began)
		if err != nil {
			t.Fatal(err)
		}
		tags := run.Meta.Tags
		if run.GPUs != tt.want || tags["slurm_gpus"] != tt.want || tags[slurm.EnvironGPUsTag] != tt.label {
			t.Errorf("%s: GPUs %q, label %q, tags %v; want %q, %q", tt.name, run.GPUs, tags[slurm.EnvironGPUsTag], tags, tt.want, tt.label)
		}
		if run.Attempt != 0 || tags[slurm.EnvironAttemptTag] != "2" || run.Comment+run.Constraints+run.Licenses != "" {
			t.Errorf("%s: attempt %d, %q, %q, %q, tags %v", tt.name, run.Attempt, run.Comment, run.Constraints, run.Licenses, tags)
		}
		if tags[userFieldsTag] != "env,team" || run.Meta.Team != "us" {
			t.Errorf("%s: the user has set %q, team %q", tt.name, tags[userFieldsTag], run.Meta.Team)
		}
	}
}

func FuzzMergeTaskEnv(f *testing.F) {
	f.Add([]byte("SLURM_JOB_ID=12\x00SLURM_JOB_NAME=train\x00"))
	f.Add([]byte("SLURM_JOB_ID=12\x00TRACKER_TEAM=us\x00SLURM_HET_SIZE=99999999999\x00SLURM_JOB_ID_HET_GROUP_0=12\x00"))
	f.Add([]byte("SLURM_JOB_ID=12\x00SLURM_ARRAY_JOB_ID=500\x00SLURM_ARRAY_TASK_ID=9\x00SLURM_JOB_QOS=gold\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		run := prologRun(t, nil)
		MergeTaskEnv(&run, Parse(text), false)
		if array := run.ArrayJobID; array.Valid() && array != run.JobID {
			t.Error("a task's environment made the job a task of another array")
		}
		if run.JobID != rt.Some[uint64](12) || run.Node != "n1" || run.Account != "acct" || run.HetJobID.Valid() || run.QOS != "" {
			t.Error("a task's environment changed the run's job, node, QOS or account")
		}
		for _, name := range rt.MetadataFields {
			if v := *run.Meta.Field(name); v != "" && !slurm.Printable(v, maxTaskValue) {
				t.Errorf("%s = %q", name, v)
			}
		}
		if MergeTaskEnv(&run, Parse(text), false) {
			t.Error("the same environment changed the run twice")
		}
	})
}
