package sonar

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/runtest"
)

// The JSON of Sonar 0.17 and later makes runs with all that it has: of samples, the host, the jobs and the cluster.
func TestImportOfNewFormat(t *testing.T) {
	a, err := txtar.ParseFile("testdata/new.txtar")
	if err != nil {
		t.Fatal(err)
	}
	files := func(yield func(string, io.Reader) bool) {
		for _, f := range a.Files {
			text := string(f.Data)
			if f.Name == "sample.json" { // 30 s later
				later := strings.NewReplacer("04:05:06", "04:05:36", `"cpu_time":60`, `"cpu_time":85`).Replace(text)
				text += later
			}
			if !yield(f.Name, strings.NewReader(text)) {
				return
			}
		}
	}
	var warn bytes.Buffer
	made, err := Import(t.TempDir(), nil, "", files, warnTo(&warn))
	if err != nil || len(made) != 1 {
		t.Fatalf("%v, %v, %s", made, err, &warn)
	}
	for _, want := range []string{"errors.json: Sonar failed at 2026-02-03T05:00:00+01:00", "2 records are of processes without a job"} {
		if !strings.Contains(warn.String(), want) {
			t.Errorf("%q lacks %q", &warn, want)
		}
	}
	r := runtest.Open(t, made[0])
	run := r.Run()
	isFailed := run.Outcome == rt.OutcomeFailed && run.ExitCode == rt.Some[int64](3)
	if run.Cluster != "fox.example.org" || run.User != "ada" || run.Account != "phys" || run.Meta.JobName != "fluid" || !isFailed || run.Node != "c1-6.fox" {
		t.Errorf("%+v", run)
	}
	if run.ArrayJobID != rt.Some[uint64](700) || run.ArrayTaskID != rt.Some[uint64](0) || run.AllocMem != rt.Some[uint64](8<<30) {
		t.Errorf("array %v, task %v, memory %v", run.ArrayJobID, run.ArrayTaskID, run.AllocMem)
	}
	var last rt.Snapshot
	for s, err := range r.Snapshots(t.Context(), 1, 0) {
		if err != nil {
			t.Fatal(err)
		}
		last.CopyFrom(s)
	}
	if last.Job.CPUUsage != rt.Some[uint64](93e6) || last.Job.Anon != rt.Some[uint64](1010<<10) || last.Job.Pids != rt.Some[uint64](6) {
		t.Errorf("%+v", last.Job)
	}
	if last.Node.MemTotal != rt.Some[uint64](8388000<<10) || last.Node.MemAvailable != rt.Some[uint64]((8388000-4194304)<<10) || last.Node.CPUs != rt.Some[uint64](4) {
		t.Errorf("%+v", last.Node)
	}
	if len(last.GPUs) != 2 || last.GPUs[1].UUID != "GPU-c" || last.GPUs[1].VRAMTotal != rt.Some[uint64](80<<30) || last.GPUs[1].Utilization.Valid() || last.GPUs[0].VRAMUsed != rt.Some[uint64](2048<<10) {
		t.Errorf("%+v", last.GPUs)
	}
}
