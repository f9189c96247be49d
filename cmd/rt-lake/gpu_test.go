package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/format/resourcetracker"
	rtreport "github.com/resource-tracker/rt/report"
	reportruns "github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
)

// gpuInLake is a GPU of a run in the lake. Its fields have the names of the report's JSON.
type gpuInLake struct {
	UUID                string   `json:"uuid"`
	InJob               *bool    `json:"in_job"`
	BusyPct             *float64 `json:"busy_pct"`
	VRAMPeakBytes       *int64   `json:"vram_peak_bytes"`
	VRAMPeakMark        *string  `json:"vram_peak_mark"`
	Processes           int64    `json:"processes"`
	ProcessBusyPct      *float64 `json:"process_busy_pct"`
	ProcessVRAMPeakByte *int64   `json:"process_vram_peak_bytes"`
}

type gpuRow struct {
	Name    string      `json:"run_name"`
	Elapsed *float64    `json:"elapsed_secs"`
	GPUs    []gpuInLake `json:"gpus"`
}

type gpuSample struct {
	Name  string   `json:"run_name"`
	Seq   int64    `json:"seq"`
	Usage *float64 `json:"job_gpu_usage"`
}

// gpuCases are jobs with GPUs that were read, or not.
var gpuCases = []struct {
	name, allocated string
	gpus            []rt.GPUReading
	processes       []rt.GPUProcessReading
	use             rt.GPUUse
	hasSecs         bool // the site has GPU-seconds
	hasBusy         bool // the list has a percentage
}{
	{"no GPU", "", nil, nil, rt.GPUUse{}, false, false},
	{"two GPUs", "0-1", []rt.GPUReading{gpuOf("GPU-0", true, rt.Some(50.0)), gpuOf("GPU-1", true, rt.Some(100.0))}, nil,
		rt.GPUUse{Usage: rt.Some(1.5), VRAMUsed: rt.Some[uint64](6 << 30)}, true, true},
	{"an idle GPU", "0", []rt.GPUReading{gpuOf("GPU-0", true, rt.Some(0.0))}, nil, rt.GPUUse{Usage: rt.Some(0.0), VRAMUsed: rt.Some[uint64](0)}, true, true},
	{"one of two is not there", "0-1", []rt.GPUReading{gpuOf("GPU-0", true, rt.Some(50.0))}, nil, rt.GPUUse{}, false, false},
	{"none is there", "0-1", nil, nil, rt.GPUUse{}, false, false},
	{"one of two was not read", "0-1", []rt.GPUReading{gpuOf("GPU-0", true, rt.Some(50.0)), gpuOf("GPU-1", true, rt.None[float64]())}, nil,
		rt.GPUUse{VRAMUsed: rt.Some[uint64](6 << 30)}, false, false},
	{"a GPU of others", "", []rt.GPUReading{gpuOf("GPU-0", false, rt.Some(90.0))},
		[]rt.GPUProcessReading{{UUID: "GPU-0", PID: 5, VRAMUsed: rt.Some[uint64](1 << 30), Utilization: rt.Some(30.0)}}, rt.GPUUse{Usage: rt.Some(0.3), VRAMUsed: rt.Some[uint64](1 << 30)}, false, true},
}

func gpuOf(uuid string, inJob bool, busy rt.Opt[float64]) rt.GPUReading {
	return rt.GPUReading{UUID: uuid, Name: "A100", Host: "0", InJob: rt.Some(inJob), VRAMTotal: rt.Some[uint64](40 << 30), VRAMUsed: rt.Some[uint64](3 << 30), Utilization: busy}
}

// The lake, the report, its JSON, the list of jobs, the site and the CSV have the same GPU figures.
// What was not read is null in all.
func TestGPUsInAllOutputs(t *testing.T) {
	configFile, _ := lakeSite(t)
	spoolDir := t.TempDir()
	r, err := registry.Open(t.Context(), filepath.Join(filepath.Dir(configFile), "site", "registry.db"), registry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for job, tt := range gpuCases {
		run := rt.Run{
			Identity:   rt.Identity{Cluster: "c", JobID: rt.Some(uint64(job + 1)), Node: "n1", Start: start},
			Allocation: rt.Allocation{User: "alice", Scheduler: "slurm", GPUs: tt.allocated},
			Ending:     rt.Ending{State: rt.StateRunning},
		}
		w, err := spool.Create(spoolDir, run, rt.Host{}, spool.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range int64(5) {
			s := rt.Snapshot{Seq: i + 1, Wall: start.UnixNano() + i*1e9, Boot: i * 1e9, Job: rt.JobReading{Phase: rt.JobPresent}, GPUs: tt.gpus, GPUProcesses: tt.processes, GPU: tt.use}
			err = errors.Join(err, w.Put(&s))
		}
		run.Outcome, run.End = rt.OutcomeFinished, start.Add(time.Minute)
		err = errors.Join(err, w.End(run))
		if err == nil {
			err = register(t.Context(), r, w.Path(), fmt.Sprintf("20260301t120000-%s%c", strings.Repeat("a", 25), 'a'+job))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	jobs, _, err := r.Jobs.List(t.Context(), site.Filter{}, "", 100)
	if err := errors.Join(err, r.Close()); err != nil || len(jobs) != len(gpuCases) {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	lakeCall(t, cli.ExitOK, "--config", configFile)
	rows, samples := tableRows[gpuRow](t, configFile, "runs"), tableRows[gpuSample](t, configFile, "samples")
	runs, err := reportruns.Read(t.Context(), []string{spoolDir}, reportruns.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]reportruns.Line{}
	for _, l := range runs.Lines(reportruns.Filter{}, true, rtreport.DefaultPrices) {
		lines[l.Job] = l
	}
	for _, row := range rows {
		from, err := spool.Open(filepath.Join(spoolDir, row.Name+".db"))
		if err != nil {
			t.Fatal(err)
		}
		job := from.Run().JobID.Or(0)
		s, err := rtreport.Summarize(from.Run(), nil, from.Snapshots(t.Context(), 1, 0))
		if err := errors.Join(err, from.Close()); err != nil {
			t.Fatal(err)
		}
		checkGPUs(t, int(job-1), row, s, lines[fmt.Sprint(job)])
		for _, j := range jobs {
			if j.JobID == job && j.GPUSecs.Valid() != gpuCases[job-1].hasSecs {
				t.Errorf("%s: the site has GPU-seconds: %t", gpuCases[job-1].name, j.GPUSecs.Valid())
			}
		}
		checkGPUSamples(t, int(job-1), row.Name, samples)
	}
	if len(rows) != len(gpuCases) {
		t.Errorf("%d runs in the lake", len(rows))
	}
}

// register stores the run of a spool file.
func register(ctx context.Context, r *registry.Registry, path, id string) error {
	from, err := spool.Open(path)
	if err != nil {
		return err
	}
	var record bytes.Buffer
	err = archive.Write(ctx, &record, from, nil)
	run := from.Run()
	s, failed := rtreport.Summarize(run, nil, from.Snapshots(ctx, 1, 0))
	summary, encoded := json.Marshal(s.Delivered())
	if err := errors.Join(err, failed, encoded, from.Close()); err != nil {
		return err
	}
	sum := sha256.Sum256(record.Bytes())
	o := site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: int64(record.Len()), SHA256: hex.EncodeToString(sum[:])}
	err = r.Runs.Create(ctx, site.StoredRun{ID: id, Owner: "a", Created: run.Start, Metadata: []byte(`{}`)})
	if err == nil {
		_, err = r.Runs.PutObject(ctx, o, record.Bytes(), &run)
	}
	if err == nil {
		_, err = r.Runs.Finish(ctx, id, site.Finish{RunStatus: "failed", DataSource: "inline", Summary: summary}, nil, nil)
	}
	return err
}

// checkGPUs compares a row of the lake with the report as JSON, and with the line of the list.
func checkGPUs(t *testing.T, job int, row gpuRow, s *rtreport.Summary, line reportruns.Line) {
	t.Helper()
	name := gpuCases[job].name
	text, err := json.Marshal(s.GPUs)
	if err != nil {
		t.Fatal(err)
	}
	var want []gpuInLake
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	isSame := len(want) == len(row.GPUs) && (len(want) == 0 || reflect.DeepEqual(want, row.GPUs))
	if !isSame {
		t.Errorf("%s: the lake has %s, the report %s", name, asText(t, row.GPUs), asText(t, want))
	}
	sum, isRead := 0.0, len(row.GPUs) > 0 && uint64(len(row.GPUs)) >= rt.CountGPUs(gpuCases[job].allocated)
	for _, g := range row.GPUs {
		busy := g.BusyPct
		if !*g.InJob {
			busy = g.ProcessBusyPct
		}
		isRead = isRead && busy != nil
		if busy != nil {
			sum += *busy
		}
	}
	var mean rt.Opt[float64]
	if isRead {
		mean.Set(sum / float64(len(row.GPUs)))
	}
	if line.GPUPct != mean || isRead != gpuCases[job].hasBusy {
		t.Errorf("%s: the list has %v %%, the lake %v", name, line.GPUPct, mean)
	}
}

// checkGPUSamples compares the last sample of the lake with the last line of the CSV.
func checkGPUSamples(t *testing.T, job int, run string, samples []gpuSample) {
	t.Helper()
	tt := gpuCases[job]
	snapshot := rt.Snapshot{Seq: 5, Wall: 1, Boot: 4e9, Job: rt.JobReading{Phase: rt.JobPresent}, GPUs: tt.gpus, GPUProcesses: tt.processes, GPU: tt.use}
	scalars := rt.DeriveScalars(nil, &snapshot, rt.ScopeJob)
	cells := strings.Split(strings.TrimSpace(string(resourcetracker.AppendCSV(nil, 1, &scalars))), ",")
	usage := cells[len(cells)-3]
	found := 0
	for _, sample := range samples {
		if sample.Name != run {
			continue
		}
		found++
		got := ""
		if sample.Usage != nil {
			got = fmt.Sprintf("%.4f", *sample.Usage)
		}
		if got != usage {
			t.Errorf("%s: sample %d of the lake has the usage %q, the CSV %q", tt.name, sample.Seq, got, usage)
		}
	}
	if found != 5 {
		t.Errorf("%s: %d samples", tt.name, found)
	}
}

func asText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
