package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

const gib = 1 << 30

// gpuRun is the summary of a job with these GPUs allocated and these readings, a second apart.
func gpuRun(t *testing.T, allocated string, fill func(i int, s *rt.Snapshot)) *Summary {
	t.Helper()
	run := rt.Run{Identity: rt.Identity{JobID: u(7), Node: "n1"}, Allocation: rt.Allocation{GPUs: allocated}}
	var list []*rt.Snapshot
	for i := range 11 {
		s := &rt.Snapshot{Seq: int64(i + 1), Boot: int64(i) * 1e9, Wall: int64(i) * 1e9, Job: rt.JobReading{Phase: rt.JobPresent}}
		fill(i, s)
		list = append(list, s)
	}
	s, err := Summarize(run, nil, func(yield func(*rt.Snapshot, error) bool) {
		for _, one := range list {
			if !yield(one, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// instance is a MIG instance that may be the job's or not.
func instance() rt.GPUReading {
	return rt.GPUReading{UUID: "MIG-x-0", Name: "A100 MIG 1g.5gb", Host: "0:0", VRAMTotal: u(5 * gib), VRAMUsed: u(2 * gib), Detail: map[string]string{"parent_uuid": "GPU-0"}}
}

// Each case has a line of text, what lists show of the GPUs, and the marks of the first one.
func TestGPUsThatWereNotRead(t *testing.T) {
	card := rt.GPUReading{UUID: "GPU-0", Name: "A100", Host: "0", VRAMTotal: u(40 * gib), VRAMUsed: u(20 * gib), Utilization: rt.Some(90.0)}
	foreign, sampled := card, card
	foreign.InJob = rt.Some(false)
	sampled.InJob, sampled.Detail = rt.Some(true), map[string]string{rt.BusyOf: rt.BusyOfInterval}
	one := func(gpu rt.GPUReading, p rt.GPUProcessReading) func(int, *rt.Snapshot) {
		return func(i int, s *rt.Snapshot) {
			s.GPUs = []rt.GPUReading{gpu}
			if p.PID != 0 {
				s.GPUProcesses = []rt.GPUProcessReading{p}
			}
		}
	}
	for name, tc := range map[string]struct {
		allocated string
		fill      func(int, *rt.Snapshot)
		want      string
		count     int
		unread    bool
		busy      rt.Opt[float64]
	}{
		"a job without --gres": {"", one(card, rt.GPUProcessReading{UUID: "GPU-0", PID: 5, VRAMUsed: u(19 * gib), Utilization: rt.Some(30.0)}),
			"GPUs 0 A100: the job's processes: busy 30 %, memory at least 19.0 GiB of 40.0 GiB (48 %)", 1, false, rt.Some(30.0)},
		"a GPU of another job": {"3", one(foreign, rt.GPUProcessReading{UUID: "GPU-0", PID: 5, VRAMUsed: u(19 * gib), Utilization: rt.Some(30.0)}),
			"GPUs 0 A100: not allocated; the job's processes: busy 30 %, memory at least 19.0 GiB of 40.0 GiB (48 %) index 3 allocated; 1 of these not found", 1, false, rt.Some(30.0)},
		"a job without --gres that uses none": {"", one(card, rt.GPUProcessReading{}), "", 0, false, rt.None[float64]()},
		"MIG as Slurm numbers it": {"0", one(instance(), rt.GPUProcessReading{UUID: "MIG-x-0", PID: 5, VRAMUsed: u(1 * gib)}),
			"GPUs 0:0 A100 MIG 1g.5gb: the job's processes: busy not measured with MIG, memory at least 1.00 GiB of 5.00 GiB (20 %) index 0 allocated; 1 of these not found", 1, false, rt.None[float64]()},
		"MIG without a process": {"0", one(instance(), rt.GPUProcessReading{}), "GPUs index 0 allocated; nothing was read of them", 0, true, rt.None[float64]()},
		"no GPU was read":       {"0-1", func(int, *rt.Snapshot) {}, "GPUs index 0-1 allocated; nothing was read of them", 0, true, rt.None[float64]()},
		"one of two was read": {"0-1", one(sampled, rt.GPUProcessReading{}),
			"GPUs 0 A100: busy 90 % (max 90 %), memory at least 20.0 GiB of 40.0 GiB (50 %) index 0-1 allocated; 1 of these not found", 1, true, rt.None[float64]()},
		"short samples": {"0", one(func() rt.GPUReading { g := card; g.InJob = rt.Some(true); return g }(), rt.GPUProcessReading{}),
			"GPUs 0 A100: busy 90 % in 11 readings (max 90 %), memory at least 20.0 GiB of 40.0 GiB (50 %)", 1, false, rt.Some(90.0)},
	} {
		t.Run(name, func(t *testing.T) {
			s := gpuRun(t, tc.allocated, tc.fill)
			p := &page{}
			(&runPage{page: p, sum: s}).gpus()
			if got := strings.Join(strings.Fields(p.String()), " "); got != tc.want {
				t.Errorf("text:\n%s\nwant:\n%s", got, tc.want)
			}
			delivered := s.Delivered().Summary()
			for what, of := range map[string]*Summary{"report": s, "what a drain delivers": delivered, "what a list reads": s.Figures().Summary()} {
				j := jobOf([]*Summary{of})
				if g := j.GPUs; g.Count != tc.count || g.Unread != tc.unread || g.BusyPct != tc.busy {
					t.Errorf("%s: %+v, want %d, unread %t, busy %v", what, g, tc.count, tc.unread, tc.busy)
				}
			}
			j := jobOf([]*Summary{s})
			j.Advise(nil)
			if i := slices.IndexFunc(j.Advice, func(a Advice) bool { return a.Resource == "gpus" && a.Verdict != NotKnown }); i >= 0 && tc.unread {
				t.Errorf("advice: %+v", j.Advice[i])
			}
		})
	}
}

// A peak that no reading saw is the accounting's, and exact for one process.
func TestGPUPeakBetweenReadings(t *testing.T) {
	fill := func(peak rt.Opt[uint64]) func(int, *rt.Snapshot) {
		return func(i int, s *rt.Snapshot) {
			s.GPUs = []rt.GPUReading{{UUID: "GPU-0", Host: "0", InJob: rt.Some(true), VRAMUsed: u(20 * gib), Utilization: rt.Some(1.0)}}
			s.GPUProcesses = []rt.GPUProcessReading{{UUID: "GPU-0", PID: 5, VRAMUsed: u(19 * gib), Utilization: rt.Some(1.0), VRAMPeak: peak}}
		}
	}
	g := gpuRun(t, "0", fill(rt.None[uint64]())).GPUs[0]
	if g.VRAMPeakBytes != u(20*gib) || g.VRAMPeakMark != AtLeast || g.ProcessVRAMPeakBytes != u(19*gib) || g.ProcessVRAMPeakMark != AtLeast {
		t.Errorf("of readings: %+v", g)
	}
	g = gpuRun(t, "0", fill(u(70*gib))).GPUs[0]
	if g.VRAMPeakBytes != u(70*gib) || g.VRAMPeakMark != AtLeast || g.ProcessVRAMPeakBytes != u(70*gib) || g.ProcessVRAMPeakMark != Exact {
		t.Errorf("of the accounting: %+v", g)
	}
}
