package report

import (
	"cmp"
	"fmt"
	"math"

	"github.com/resource-tracker/rt"
)

// enough is the minimum elapsed time of a run with advice, in seconds.
const enough = 60

// advise sets Advice, which says what to request next time, or AdviceReason, which says why there
// is none. For an incomplete record there is no advice, because the job may have needed more in the
// part that is missing.
func (s *Summary) advise() {
	switch elapsed := s.ElapsedSecs.Or(0); {
	case s.Scope != ScopeJob:
		return
	case s.Run.State == rt.StateRunning:
		s.AdviceReason = "the job is not over"
	case !s.Record.Complete:
		s.AdviceReason = "the record is not complete"
	case s.Record.Missed > 0 || s.Record.Gaps > 0:
		s.AdviceReason = "readings are missing"
	case elapsed < enough:
		s.AdviceReason = "the job was too short"
	default:
		s.adviseMemory()
		s.adviseCPU()
		s.adviseGPUs()
		s.adviseTasks()
	}
}

func (s *Summary) advice(format string, args ...any) {
	s.Advice = append(s.Advice, fmt.Sprintf(format, args...))
}

func (s *Summary) adviseMemory() {
	m := &s.Memory
	peak, ok := m.PeakBytes.Get()
	switch {
	case m.OOMKills.Or(0) > 0:
		s.advice("request more memory than %s: processes were killed for lack of it", size(m.LimitBytes))
	case !ok || m.PeakOf != "kernel" || m.LimitOf == "node" || !m.PeakPct.Valid():
	case m.PeakPct.Or(100) < 50 && s.Run.Outcome == rt.OutcomeFinished:
		mib := math.Ceil(float64(peak)*1.2/(256<<20)) * 256 // the peak plus 20 %, rounded up to a multiple of 256 MiB
		if bytes := uint64(mib) << 20; bytes < m.LimitBytes.Or(0) {
			s.advice("--mem=%.0fM would do here: the peak was %s of %s", mib, size(m.PeakBytes), size(m.LimitBytes))
		}
	}
}

func (s *Summary) adviseCPU() {
	c := &s.CPU
	cores, ok := c.Cores.Get()
	top, known := c.PeakCores.Get()
	if !ok || !known || c.CoresOf != "allocation" || s.Run.Outcome != rt.OutcomeFinished {
		return
	}
	if need := uint64(math.Ceil(top)); need >= 1 && need < cores && c.UsedPct.Or(100) < 50 {
		s.advice("%d of %d cores are enough: never more than %.2f were busy", need, cores, top)
	}
}

func (s *Summary) adviseGPUs() {
	for i := range s.GPUs {
		if g := &s.GPUs[i]; g.InJob.Or(false) && g.MaxBusyPct == rt.Some(0.0) && g.Processes == 0 {
			s.advice("GPU %s was allocated and never busy", gpuName(g))
		}
	}
}

func (s *Summary) adviseTasks() {
	const unequal = 1.5
	for i := range s.Steps {
		if x, ok := s.Steps[i].CPUImbalance.Get(); ok && x >= unequal {
			s.advice("step %s: its busiest task used %.1f times the mean; the others waited", s.Steps[i].Step, x)
		}
	}
}

func gpuName(g *GPU) string { return cmp.Or(g.Host, g.UUID) }
