package sonar

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func newFile(t *testing.T, name string) []byte {
	t.Helper()
	for _, f := range archive(t, "testdata/new.txtar") {
		if f.Name == name {
			return f.Data
		}
	}
	t.Fatalf("no file %s", name)
	return nil
}

func TestNewSamples(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 0, zone(3600))
	base := Sample{Version: "0.18.4", Time: at, Host: "c1-6.fox", Cluster: "fox.example.org", User: "ada", Job: 712}
	first, second, third, group := base, base, base, base
	first.Cmd, first.PID, first.PPID, first.CPUPct, first.CPUTimeSec, first.CPUKiB, first.RSSAnonKiB = "solve", 4001, 4000, 95.5, 60, 5000, 1000
	first.GPUs, first.GPUPct, first.GPUMemPct, first.GPUKiB = GPUSet{Indices: []uint32{0, 2}}, 50.5, 1, 300
	first.Load, first.MemUsedKiB = []uint64{100, 200, 300, 400}, 4194304
	first.GPUInfo = []GPU{
		{UUID: "GPU-a", FanPct: 30, Perf: "P8", MemUseKiB: 2048, UtilPct: 50, MemUtilPct: 5, TempC: 41, PowerW: 120, PowerLimitW: 300, ClockMHz: 1500, MemClockMHz: 800},
		{}, {UUID: "GPU-c", Mode: "Exclusive"},
	}
	second.Cmd, second.PID, second.PPID, second.CPUTimeSec, second.RSSAnonKiB, second.RolledUp = "rank", 5000000000, 4001, 8, 10, 3
	third.Cmd, third.PID, third.PPID, third.CPUPct = NoInfo, 4002, 4000, 0.1
	group.Job, group.Epoch, group.User, group.Cmd, group.PID = 99, 166179831, "_user_1007", "bash <defunct>", 99
	want := []Record{&first, &second, &third, &group}
	if d := cmp.Diff(want, all(t, newFile(t, "sample.json")), cmp.Comparer(time.Time.Equal)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if uid, ok := UID(group.User); !ok || uid != 1007 {
		t.Errorf("the user id of %s is %d, %t", group.User, uid, ok)
	}
}

func TestNewSysinfo(t *testing.T) {
	want := []Record{&Sysinfo{
		Version: "0.18.4", Timestamp: time.Date(2026, 2, 3, 0, 0, 1, 0, zone(3600)), Hostname: "c1-6.fox", Description: "Model 7",
		CPUCores: 4, MemGB: 7, MemKiB: 8388000, GPUCards: 2, GPUMemGB: 160,
		GPUInfo: []Card{{BusAddr: "0000:18:00.0", UUID: "GPU-a", Manufacturer: "NVIDIA", Model: "H100", MemSizeKiB: 83886080, PowerLimitW: 300}, {Index: 2, UUID: "GPU-c", MemSizeKiB: 83886080}},
	}}
	if d := cmp.Diff(want, all(t, newFile(t, "sysinfo.json")), cmp.Comparer(time.Time.Equal)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestNewJobs(t *testing.T) {
	common := JobRecord{Version: "0.18.4", Cluster: "fox.example.org"}
	job, step, pending := common, common, common
	job.JobID, job.JobIDRaw, job.JobName, job.State, job.User, job.Account, job.Partition = "700_0", "712", "fluid", "FAILED", "ada", "phys", "normal"
	job.Submit, job.Start, job.End = "2026-02-03T04:00:00+01:00", "2026-02-03T04:03:06+01:00", "2026-02-03T04:06:06+01:00"
	job.TimelimitRaw, job.Priority, job.NodeList, job.AllocTRES, job.ExitCode, job.Suspended = "60", "1000", "c1-[6-7],b1", "cpu=4,mem=8G,node=1", "3:0", "00:00:37"
	job.ReqCPUS, job.ReqMem, job.ReqNodes = "4", "8388608K", "1"
	step.JobID, step.JobIDRaw, step.JobName, step.State, step.Start = "712.batch", "712.batch", "batch", "FAILED", "2026-02-03T04:03:06+01:00"
	step.AllocTRES, step.UserCPU, step.MaxRSS, step.ElapsedRaw = "cpu=4", "1-01:01:01", "1000K", "180"
	pending.JobID, pending.JobIDRaw, pending.State, pending.TimelimitRaw, pending.Submit = "713+1", "713", "PENDING", "UNLIMITED", "2026-02-03T04:00:00Z"
	if d := cmp.Diff([]Record{&job, &step, &pending}, all(t, newFile(t, "jobs.json"))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestNewErrors(t *testing.T) {
	want := []Record{&Failure{Version: "0.18.4", Message: "sacct is\uFFFDdown", Timestamp: time.Date(2026, 2, 3, 5, 0, 0, 0, zone(3600))}}
	if d := cmp.Diff(want, all(t, newFile(t, "errors.json")), cmp.Comparer(time.Time.Equal)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A malformed envelope is named, and those around it are read.
func TestNewFormatMalformed(t *testing.T) {
	good := strings.TrimSpace(string(newFile(t, "sysinfo.json")))
	for name, tt := range map[string]struct{ bad, want string }{
		"no version":     {`{"meta":{"producer":"sonar"},"data":{"type":"sample"}}`, "no version of the program in meta"},
		"neither":        {`{"meta":{"version":"1.0.0"}}`, "neither data nor errors"},
		"another type":   {`{"meta":{"version":"1.0.0"},"data":{"type":"weather"}}`, `unknown type "weather"`},
		"no time":        {`{"meta":{"version":"1.0.0"},"data":{"type":"sample","attributes":{"node":"n"}}}`, "no ISO 8601 time"},
		"negative":       {`{"meta":{"version":"1.0.0"},"data":{"type":"sample","attributes":{"time":"2026-02-03T04:05:36Z","node":"n","jobs":[{"job":-1}]}}}`, `"-1" is no unsigned integer`},
		"a fraction":     {`{"meta":{"version":"1.0.0"},"data":{"type":"sample","attributes":{"time":"2026-02-03T04:05:36Z","node":"n","jobs":[{"job":1.5}]}}}`, `"1.5" is no unsigned integer`},
		"a GPU too many": {`{"meta":{"version":"1.0.0"},"data":{"type":"sample","attributes":{"time":"2026-02-03T04:05:36Z","node":"n","system":{"gpus":[{"index":4000000}]}}}}`, "a GPU has the index 4000000"},
		"no node":        {`{"meta":{"version":"1.0.0"},"data":{"type":"sysinfo","attributes":{"time":"2026-02-03T04:05:36Z"}}}`, "no hostname"},
		"no job id":      {`{"meta":{"version":"1.0.0"},"data":{"type":"job","attributes":{"slurm_jobs":[{"job_state":"RUNNING"}]}}}`, "no JobID"},
		"data is a list": {`{"meta":{"version":"1.0.0"},"data":[]}`, "data: json"},
	} {
		records, bad := read([]byte(good + tt.bad + good))
		if len(records) != 2 || len(bad) != 1 || !strings.Contains(bad[0].Error(), tt.want) {
			t.Errorf("%s: %d records, %v, want 2 and %q", name, len(records), bad, tt.want)
		}
	}
	records, bad := read([]byte(good + good[:len(good)-9]))
	if len(records) != 1 || len(bad) != 1 || !strings.Contains(bad[0].Error(), "unexpected EOF") {
		t.Errorf("cut: %d records, %v", len(records), bad)
	}
	if slices.ContainsFunc(records, func(r Record) bool { return r == nil }) {
		t.Error("a record is nil")
	}
}
