package report

import "github.com/resource-tracker/rt"

// DeliveredFigures are the figures of a run that a drain delivers with it: the figures of lists, and the sample for
// advice about later jobs.
type DeliveredFigures struct {
	RunFigures
	Sample *SampleFigures `json:"sample,omitempty"` // absent: the run is in no sample
}

// SampleFigures is what the advice about later jobs takes from a run, in addition to its RunFigures.
type SampleFigures struct {
	WorkDir  string      `json:"work_dir,omitempty"`
	Scope    Scope       `json:"scope"`
	Readings int         `json:"readings"`
	Missed   int         `json:"missed"`
	Gaps     int         `json:"gaps"`
	PeakOf   string      `json:"peak_of,omitempty"`
	GPUs     []SampleGPU `json:"gpus,omitempty"` // as in RunFigures
	Groups   []CoreGroup `json:"core_groups,omitempty"`
	Tasks    int         `json:"tasks"` // per node
}

// SampleGPU is the part of GPU in SampleFigures.
type SampleGPU struct {
	MaxBusyPct rt.Opt[float64] `json:"max_busy_pct"`
}

// Delivered returns the figures that a drain delivers. The summary is of all snapshots of the run.
func (s *Summary) Delivered() *DeliveredFigures {
	d := &DeliveredFigures{RunFigures: *s.Figures()}
	if s.Scope != ScopeJob {
		return d
	}
	groups, tasks := s.coreGroups()
	d.Sample = &SampleFigures{
		WorkDir: s.Run.WorkDir, Scope: s.Scope, Readings: s.Record.Readings, Missed: s.Record.Missed, Gaps: s.Record.Gaps, PeakOf: s.Memory.PeakOf, Groups: groups, Tasks: tasks,
	}
	for i := range s.GPUs {
		d.Sample.GPUs = append(d.Sample.GPUs, SampleGPU{s.GPUs[i].MaxBusyPct})
	}
	return d
}

// Summary returns a summary that has only these figures.
func (d *DeliveredFigures) Summary() *Summary {
	s := d.RunFigures.Summary()
	f := d.Sample
	if f == nil {
		return s
	}
	s.Run.WorkDir, s.Scope, s.Memory.PeakOf = f.WorkDir, f.Scope, f.PeakOf
	s.Record.Readings, s.Record.Missed, s.Record.Gaps = f.Readings, f.Missed, f.Gaps
	for i := range min(len(f.GPUs), len(s.GPUs)) {
		s.GPUs[i].MaxBusyPct = f.GPUs[i].MaxBusyPct
	}
	s.sample = f
	return s
}
