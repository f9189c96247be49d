package environ

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

var update = flag.Bool("update", false, "write the golden files")

// began is when tracking begins in all tests.
var began = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// capture is one environment of testdata/slurm-22.05-env.txtar.
type capture struct {
	name     string
	scenario string
	context  string // prolog_slurmd, epilog_task, ..., batchenv
	job      uint64 // the job of the hook or task
	node     string // "head" for slurmctld's
	step     string
	env      Env
}

func captures(t testing.TB) []capture {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/slurm-22.05-env.txtar")
	if err != nil {
		t.Fatal(err)
	}
	variable := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	var list []capture
	for _, file := range archive.Files {
		parts := strings.Split(file.Name, ".")
		c := capture{name: file.Name, scenario: parts[0], context: parts[1]}
		if c.context == "batchenv" {
			c.job, c.node, c.step = 1, "n1", "none"
		} else {
			if c.job, err = strconv.ParseUint(strings.TrimPrefix(parts[2], "job"), 10, 64); err != nil {
				t.Fatal(err)
			}
			c.node, c.step = parts[3], strings.TrimPrefix(parts[4], "step")
		}
		var environ []string
		for line := range strings.Lines(string(file.Data)) {
			if variable.MatchString(line) {
				environ = append(environ, strings.TrimSuffix(line, "\n"))
			}
		}
		c.env = NewEnv(environ)
		list = append(list, c)
	}
	if len(list) < 60 {
		t.Fatalf("only %d environments in the archive", len(list))
	}
	return list
}

// runOf makes the run of the program that has this environment.
func (c capture) runOf(t testing.TB) rt.Run {
	t.Helper()
	from := FromHook
	if strings.HasSuffix(c.context, "_task") || c.context == "batchenv" {
		step := c.step // of the cgroup
		if step == "none" {
			step = "batch"
		}
		from = func(env Env, now time.Time) (rt.Run, error) { return FromTask(env, step, now) }
	}
	run, err := from(c.env, began)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	if run.Step == "" {
		slurm.Describe(&run)
	}
	return run
}

// The run of a capture has what the scenario of the capture determines.
func TestCapturedIdentity(t *testing.T) {
	for _, c := range captures(t) {
		t.Run(c.name, func(t *testing.T) {
			run := c.runOf(t)
			want := rt.Some(c.job)
			if c.scenario == "sbatch-het" && c.context != "prolog_slurmctld" && c.node == "n2" {
				want = rt.Some[uint64](5) // a task there has 4, the leader's id
			}
			if run.JobID != want {
				t.Errorf("job id %v, want %v", run.JobID, want)
			}
			node := c.node
			if node == "head" {
				node = ""
			}
			if run.Node != node {
				t.Errorf("node %q, want %q", run.Node, node)
			}
			if run.User != "labuser" || run.UID != rt.Some[uint64](1001) || run.Account != "labacct" || run.Partition != "lab" || run.Cluster != "lab" {
				t.Errorf("user %q (%v), account %q, partition %q, cluster %q", run.User, run.UID, run.Account, run.Partition, run.Cluster)
			}
			step := c.step
			if step == "none" {
				step = ""
				if strings.HasSuffix(c.context, "_task") || c.context == "batchenv" {
					step = "batch"
				}
			}
			if got := stepOf(c.env, run.Node); step != "" && got != step {
				t.Errorf("step %q according to the environment, want %q", got, step)
			}
			if run.Step != step {
				t.Errorf("step %q, want %q", run.Step, step)
			}
			if node != "" && run.AllocCPUs != rt.Some[uint64](1) {
				t.Errorf("CPUs on the node: %v, want 1", run.AllocCPUs)
			}
		})
	}
}

// All of every run, compared with a file that was reviewed.
func TestCapturedGolden(t *testing.T) {
	golden := filepath.Join("testdata", "slurm-22.05-runs.golden")
	var got strings.Builder
	for _, c := range captures(t) {
		run := c.runOf(t)
		text, err := json.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s\n\t%s\n", c.name, text)
		if strings.HasPrefix(c.context, "epilog_slurm") {
			exit, err := ExitFromEpilog(c.env, began)
			if err != nil {
				t.Fatal(err)
			}
			if text, err = json.Marshal(exit); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&got, "\t%s\n", text)
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); d != "" {
		t.Errorf("runs differ from %s (-want +got):\n%s", golden, d)
	}
}

// The environment of the job's processes adds what a Prolog lacks: the name, the component, and the
// array ids where no doubt is left.
func TestCapturedMerge(t *testing.T) {
	all := captures(t)
	prologs := make(map[string]rt.Run)
	for _, c := range all {
		if c.context == "prolog_slurmd" {
			prologs[fmt.Sprint(c.scenario, c.runOf(t).JobID, c.node)] = c.runOf(t)
		}
	}
	names := map[string]string{
		"sbatch-simple": "simple", "sbatch-array": "arr", "sbatch-het": "het", "srun-2nodes": "inter", "sbatch-2nodes-nosrun": "two",
		"flagsAllocOnly-2nodes": "nocontain", "flagsNone-2nodes-batch-only": "noflags", "flagsNone-2nodes-srun-on-both": "noflags",
	}
	merged := 0
	for _, c := range all {
		if c.context != "prolog_task" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			run, ok := prologs[fmt.Sprint(c.scenario, c.runOf(t).JobID, c.node)]
			if !ok {
				t.Fatal("no Prolog was captured for this job on this node")
			}
			merged++
			if !MergeTaskEnv(&run, c.env, c.step == "none") {
				t.Fatal("the task's environment changed nothing")
			}
			if run.Meta.JobName != names[c.scenario] {
				t.Errorf("job name %q, want %q", run.Meta.JobName, names[c.scenario])
			}
			id, label := run.Meta.ExternalRunID, run.Meta.Tags[slurm.EnvironArrayTag]
			isLast := c.job == 2 // it has the array's own id
			switch {
			case c.scenario != "sbatch-array":
			case isLast && (id != "lab:2_4@n1#0" || label != ""):
				t.Errorf("the last task is %s with the label %q", id, label)
			case !isLast && (id != "lab:3@n1#0" || run.ArrayJobID.Valid() || label != "2_3"):
				t.Errorf("the other task is %s with the label %q", id, label)
			}
			if c.scenario == "sbatch-het" {
				offset := run.JobID.Or(0) - 4
				if run.HetJobOffset != rt.Some(offset) {
					t.Errorf("component %v, want %d", run.HetJobOffset, offset)
				}
			}
			if run.QOS != "" || run.AllocMem.Valid() {
				t.Errorf("QOS %q and memory %v of the job's processes", run.QOS, run.AllocMem)
			}
			if MergeTaskEnv(&run, c.env, c.step == "none") {
				t.Error("the same environment changed the run a second time")
			}
		})
	}
	if merged < 10 {
		t.Errorf("only %d environments were merged", merged)
	}
}
