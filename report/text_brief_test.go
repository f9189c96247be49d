package report

import (
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// brief is what WriteBrief writes.
func brief(t *testing.T, j *JobSummary, colors Colors) string {
	t.Helper()
	var b strings.Builder
	o := TextOptions{Zone: time.UTC, ASCII: true, Prices: DefaultPrices, Colors: colors, Now: time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)}
	if err := WriteBrief(&b, j, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A job is shown in eight lines at most, however it ended. A line more names nodes that are missing.
func TestBrief(t *testing.T) {
	var all strings.Builder
	for _, tt := range []struct {
		name   string
		change func(s *Summary)
	}{
		{"finished", func(*Summary) {}},
		{"killed for memory", func(s *Summary) {
			s.Run.Outcome = rt.OutcomeOOM
			s.Memory.PeakBytes, s.Memory.PeakPct = s.Memory.LimitBytes, rt.Some(100.0)
		}},
		{"time limit", func(s *Summary) { s.Run.Outcome = rt.OutcomeTimeout }},
		{"failed", func(s *Summary) { s.Run.Outcome, s.Run.ExitCode = rt.OutcomeFailed, rt.Some[int64](7) }},
		{"cancelled, suspended", func(s *Summary) {
			s.Run.Outcome, s.SlurmState, s.SuspendedSecs = rt.OutcomeCancelled, "CANCELLED by root", rt.Some(61.0)
		}},
		{"running", func(s *Summary) {
			s.Run.Ending = rt.Ending{State: rt.StateRunning}
			s.Record.Last = time.Date(2026, 3, 1, 12, 29, 50, 0, time.UTC)
		}},
		{"nothing is known", func(s *Summary) {
			*s = Summary{Run: rt.Run{Identity: s.Run.Identity, Ending: s.Run.Ending}, Label: s.Label}
		}},
		{"GPUs", func(s *Summary) {
			s.Run.GPUs = "0-1"
			s.GPUs = []GPU{{GPUPart: GPUPart{InJob: rt.Some(true), BusyPct: rt.Some(20.0)}}, {GPUPart: GPUPart{InJob: rt.Some(true), BusyPct: rt.Some(0.0)}}}
		}},
		{"a node is missing", func(s *Summary) { s.Run.NumNodes, s.Run.NodeList = rt.Some[uint64](2), "n[1-2]" }},
	} {
		s := briefSummary()
		tt.change(s)
		text := brief(t, only(t, s), Colors{})
		lines := strings.Count(text, "\n")
		if isLonger := tt.name == "a node is missing"; lines > 8 && !isLonger {
			t.Errorf("%s: %d lines", tt.name, lines)
		}
		all.WriteString("## " + tt.name + "\n" + text + "\n")
	}
	golden(t, "brief.txt", all.String())
}

// briefSummary is a finished run with all figures.
func briefSummary() *Summary {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := &Summary{Run: rt.Run{
		Identity:   rt.Identity{Cluster: "c", JobID: rt.Some[uint64](12), Node: "n1", Start: start},
		Allocation: rt.Allocation{User: "anna", Group: "staff", Account: "chem", Partition: "main", QOS: "normal", JobStart: start, JobEndLimit: start.Add(time.Hour)},
		Meta:       rt.Metadata{JobName: "md"},
		Ending:     rt.Ending{State: rt.StateEnded, Outcome: rt.OutcomeFinished},
	}}
	s.Label, s.Scope, s.ElapsedSecs = s.Run.Label(), ScopeJob, rt.Some(600.0)
	s.CPU.Cores, s.CPU.CoresOf, s.CPU.AllocatedSecs, s.CPU.UsedSecs, s.CPU.UsedPct = rt.Some[uint64](4), "allocation", rt.Some(2400.0), rt.Some(600.0), rt.Some(25.0)
	s.Memory.LimitBytes, s.Memory.LimitOf, s.Memory.PeakBytes, s.Memory.PeakPct = rt.Some[uint64](4<<30), "cgroup", rt.Some[uint64](3<<30), rt.Some(75.0)
	return s
}

// Colors are for what is good, wasteful and harmful by the thresholds.
func TestBriefColors(t *testing.T) {
	colors := Colors{On: true, Wasteful: 50, Harmful: 95}
	s := briefSummary()
	text := brief(t, only(t, s), colors)
	for _, want := range []string{
		": \x1b[32mfinished\x1b[0m\n", "\nCPU          \x1b[33m[#####", "\nMemory       \x1b[32m[####", "\nTime         \x1b[32m[###",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%q", want, text)
		}
	}
	s = briefSummary()
	s.Run.Outcome, s.Memory.PeakPct = rt.OutcomeOOM, rt.Some(99.0)
	if text := brief(t, only(t, s), colors); !strings.Contains(text, ": \x1b[31mkilled") || !strings.Contains(text, "\nMemory       \x1b[31m[") {
		t.Errorf("%q", text)
	}
	colors.Wasteful, colors.Harmful = 20, 70
	if text := brief(t, only(t, briefSummary()), colors); !strings.Contains(text, "\nCPU          \x1b[32m[") || !strings.Contains(text, "\nMemory       \x1b[31m[") {
		t.Errorf("with other thresholds: %q", text)
	}
	if text := brief(t, only(t, s), Colors{Wasteful: 50, Harmful: 95}); strings.Contains(text, "\x1b") {
		t.Errorf("without colors: %q", text)
	}
}

// GPUs that cannot be read are allocated all the same.
func TestBriefOfUnreadGPUs(t *testing.T) {
	s := briefSummary()
	s.Run.GPUs, s.GPUs = "0", nil
	if text := brief(t, only(t, s), Colors{}); !strings.Contains(text, "1 GPU, not measured\n") {
		t.Error(text)
	}
}
