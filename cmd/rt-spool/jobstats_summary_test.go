package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

// decodeJobstats does what jobstats does with AdminComment.
func decodeJobstats(t *testing.T, text string) string {
	t.Helper()
	packed, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "JS1:"))
	if err != nil || !strings.HasPrefix(text, "JS1:H4s") {
		t.Fatalf("%v: %s", err, text)
	}
	from, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func jobstatsRun(node string) *report.Summary {
	s := &report.Summary{}
	s.Run.Node, s.Run.AllocCPUs, s.Run.AllocMem = node, rt.Some[uint64](4), rt.Some[uint64](8<<30)
	s.CPU.UsedSecs, s.Memory.PeakBytes = rt.Some(123.456), rt.Some[uint64](1<<30)
	return s
}

func TestJobstats(t *testing.T) {
	two := jobstatsRun("n2")
	two.GPUs = []report.GPU{
		{VRAMTotalBytes: rt.Some[uint64](80 << 30)}, // of another job
		{GPUPart: report.GPUPart{InJob: rt.Some(true), BusyPct: rt.Some(98.76)}, VRAMTotalBytes: rt.Some[uint64](80 << 30), VRAMPeakBytes: rt.Some[uint64](5 << 30)},
		{GPUPart: report.GPUPart{InJob: rt.Some(true)}},
	}
	limited := jobstatsRun("n1")
	limited.Run.AllocMem, limited.Memory.LimitBytes = rt.None[uint64](), rt.Some[uint64](1<<31) // before sacct is asked
	for name, c := range map[string]struct {
		job  report.JobSummary
		want string
	}{
		"one node": {report.JobSummary{ElapsedSecs: rt.Some(60.4), Runs: report.NodeRuns{jobstatsRun("n1")}},
			`{"nodes":{"n1":{"cpus":4,"total_memory":8589934592,"used_memory":1073741824,"total_time":123.5}},"total_time":60,"gpus":0}`},
		"limit": {report.JobSummary{Runs: report.NodeRuns{limited}},
			`{"nodes":{"n1":{"cpus":4,"total_memory":2147483648,"used_memory":1073741824,"total_time":123.5}},"gpus":0}`},
		"GPUs": {report.JobSummary{Runs: report.NodeRuns{two}},
			`{"nodes":{"n2":{"cpus":4,"total_memory":8589934592,"used_memory":1073741824,"total_time":123.5,"gpu_total_memory":{"0":85899345920},"gpu_used_memory":{"0":5368709120},"gpu_utilization":{"0":98.8}}},"gpus":2}`},
	} {
		text, err := encodeJobstats(&c.job)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := decodeJobstats(t, text); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// Nothing that was not read, or that is only a bound, becomes a figure.
func TestJobstatsOfUnknown(t *testing.T) {
	for name, change := range map[string]func(*report.Summary){
		"no limit":       func(s *report.Summary) { s.Run.AllocMem = rt.None[uint64]() },
		"no CPU time":    func(s *report.Summary) { s.CPU.UsedSecs = rt.None[float64]() },
		"no memory":      func(s *report.Summary) { s.Memory.PeakBytes = rt.None[uint64]() },
		"CPU at least":   func(s *report.Summary) { s.CPU.UsedMark = report.AtLeast },
		"memory at most": func(s *report.Summary) { s.Memory.PeakMark = report.AtMost },
	} {
		one := jobstatsRun("n2")
		change(one)
		if text, err := encodeJobstats(&report.JobSummary{Runs: report.NodeRuns{jobstatsRun("n1"), one}}); !errors.Is(err, errUnknown) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
