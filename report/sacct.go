package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
)

// Sacct compares Slurm's accounting of the whole job, on all of its nodes, with our figures.
type Sacct struct {
	// State is Slurm's own: "PREEMPTED", "NODE_FAIL". CancelledByUID is who cancelled the job.
	State          string          `json:"state,omitempty"`
	CancelledByUID rt.Opt[uint64]  `json:"cancelled_by_uid,omitzero"`
	SuspendedSecs  rt.Opt[float64] `json:"suspended_secs,omitzero"` // not in ElapsedSecs
	ElapsedSecs    rt.Opt[float64] `json:"elapsed_secs"`
	CPUSecs        rt.Opt[float64] `json:"cpu_secs"`
	UserSecs       rt.Opt[float64] `json:"cpu_user_secs"`
	SystemSecs     rt.Opt[float64] `json:"cpu_system_secs"`
	MaxRSSBytes    rt.Opt[float64] `json:"max_rss_bytes"`
	MaxRSSStep     string          `json:"max_rss_step,omitempty"`
	MaxRSSNode     string          `json:"max_rss_node,omitempty"`
	// Differences compares the figures of this run, if it is the job's only one. For a job of several nodes Nodes has
	// the differences.
	Differences []Difference `json:"differences,omitempty"`
}

// Difference compares a figure of ours with sacct's.
type Difference struct {
	Figure string  `json:"figure"` // "cpu_secs", "elapsed_secs", "max_rss_bytes"
	Ours   float64 `json:"ours"`
	Sacct  float64 `json:"sacct"`
	// OffPct is by how much ours is higher, in percent of sacct's; absent if sacct's is 0.
	OffPct rt.Opt[float64] `json:"off_pct"`
	Reason string          `json:"reason"` // why they differ
}

// sacctOf parses the pairs that the drain has written.
func sacctOf(detail string) *Sacct {
	pairs := pairsOf(detail)
	s := &Sacct{
		State: pairs["state"], MaxRSSStep: pairs["max_rss_step"], MaxRSSNode: pairs["max_rss_node"],
		ElapsedSecs: number(pairs["elapsed_secs"]), SuspendedSecs: number(pairs["suspended_secs"]), CPUSecs: number(pairs["cpu_secs"]),
		UserSecs: number(pairs["cpu_user_secs"]), SystemSecs: number(pairs["cpu_system_secs"]), MaxRSSBytes: number(pairs["max_rss_bytes"]),
	}
	if uid, err := strconv.ParseUint(pairs["cancelled_by_uid"], 10, 32); err == nil {
		s.CancelledByUID.Set(uid)
	}
	return s
}

// slurmState returns Slurm's own state of a run that accounting has completed; empty if it says no more than the
// outcome.
func (s *Summary) slurmState() string {
	isKnown := s.Sacct != nil && s.Run.OutcomeSource == "sacct"
	if !isKnown || s.Sacct.State == "" {
		return ""
	}
	uid, isByUser := s.Sacct.CancelledByUID.Get()
	switch {
	case !isByUser:
		return SlurmStateOf(s.Run.Outcome, s.Sacct.State)
	case uid == 0:
		return s.Sacct.State + " by root"
	case rt.Some(uid) == s.Run.UID:
		return s.Sacct.State + " by its user"
	}
	return fmt.Sprintf("%s by uid %d", s.Sacct.State, uid)
}

// SlurmStateOf returns Slurm's own state; empty if it says no more than the outcome.
func SlurmStateOf(outcome rt.Outcome, state string) string {
	if slices.Contains(plainStates[outcome], state) {
		return ""
	}
	return state
}

// plainStates are the states that say no more than the outcome.
var plainStates = map[rt.Outcome][]string{
	rt.OutcomeFinished: {"COMPLETED"}, rt.OutcomeFailed: {"FAILED"}, rt.OutcomeCancelled: {"CANCELLED", "REQUEUED"}, rt.OutcomeTimeout: {"TIMEOUT"},
	rt.OutcomeOOM: {"OUT_OF_MEMORY"},
}

// suspendedOf returns how long the job was suspended, as the drain has written it, or else as the readings say; absent
// for 0.
func suspendedOf(events []rt.Event, read *total) rt.Opt[float64] {
	for i := range events {
		e := &events[i]
		if e.Kind == "job" && e.Name == "sacct" && e.Status == "ok" {
			return sacctOf(e.Detail).SuspendedSecs
		}
	}
	if read.value().Or(0) > 0 {
		return read.scaled(1e-6)
	}
	return rt.None[float64]()
}

// The reasons of differences, which apply to every job.
const (
	whyCPU     = "sacct has each task's start in slurmstepd, but not processes without a wait(2)"
	whyRSS     = "sacct samples the largest task of one step; ours is the kernel's peak of all, file cache included"
	whyReadRSS = "sacct samples the largest task of one step, we all tasks together"
	whySpan    = "sacct has whole seconds of the allocation, ours go from Prolog to last process"
	whySpans   = whySpan + " where that is longest"
)

func (s *Sacct) compare(cpu, elapsed, peak rt.Opt[float64], whyElapsed, whyPeak string) (list []Difference) {
	for _, d := range [...]struct {
		figure, reason string
		ours, theirs   rt.Opt[float64]
	}{
		{"cpu_secs", whyCPU, cpu, s.CPUSecs}, {"elapsed_secs", whyElapsed, elapsed, s.ElapsedSecs}, {"max_rss_bytes", whyPeak, peak, s.MaxRSSBytes},
	} {
		ours, theirs, ok := rt.Both(d.ours, d.theirs)
		if !ok {
			continue
		}
		one := Difference{Figure: d.figure, Ours: ours, Sacct: theirs, Reason: d.reason}
		if theirs > 0 {
			one.OffPct.Set((ours/theirs - 1) * 100)
		}
		list = append(list, one)
	}
	return list
}

// compareSacct does this for the only run of a job.
func (s *Summary) compareSacct() {
	if s.Sacct == nil || s.Run.Step != "" || s.Run.NumNodes.Or(1) > 1 {
		return
	}
	s.Sacct.Differences = s.Sacct.compare(s.CPU.UsedSecs, s.ElapsedSecs, rt.Scaled(s.Memory.PeakBytes, 1), whySpan, whyPeak(s))
}

func whyPeak(s *Summary) string {
	if s.Memory.PeakOf == "kernel" {
		return whyRSS
	}
	return whyReadRSS
}

// compareSacct does this for the runs of all nodes of a job. The memory is from the node that sacct names.
func (n *Nodes) compareSacct(list []*Summary) {
	var elapsed, peak rt.Opt[float64]
	var of *Sacct
	why := whyRSS
	for _, s := range list {
		if s.Sacct == nil || s.Run.Step != "" {
			return
		}
		of = s.Sacct
		raise(&elapsed, s.ElapsedSecs)
		if s.Run.Node == s.Sacct.MaxRSSNode {
			peak, why = rt.Scaled(s.Memory.PeakBytes, 1), whyPeak(s)
		}
	}
	if n.Expected.Or(0) == uint64(len(list)) {
		n.Sacct = of.compare(n.UsedSecs, elapsed, peak, whySpans, why)
	}
}

var unsignedZero = strings.NewReplacer("-0.0 %", "0.0 %", "+0.0 %", "0.0 %")

// differences writes sacct's figures. Verbose shows ours with each, and the reason of the
// difference.
func (p *page) differences(list []Difference, o TextOptions) {
	var all []string
	isOther := false
	for i := range list {
		d := &list[i]
		show := Clock
		name := map[string]string{"cpu_secs": "CPU", "elapsed_secs": "elapsed", "max_rss_bytes": "MaxRSS"}[d.Figure]
		if d.Figure == "max_rss_bytes" {
			show = bytes
		}
		one := name + " " + show(rt.Some(d.Sacct))
		isOther = isOther || show(rt.Some(d.Sacct)) != show(rt.Some(d.Ours))
		if !o.Verbose {
			all = append(all, one)
			continue
		}
		off := onlyIf(d.OffPct.Valid(), ", "+unsignedZero.Replace(Number(d.OffPct, "%+.1f %%")))
		p.list(onlyIf(i == 0, "sacct"), fmt.Sprintf("%s (ours %s%s): %s", one, show(rt.Some(d.Ours)), off, d.Reason))
	}
	if len(all) > 0 {
		p.list("sacct", strings.Join(all, ", ")+onlyIf(isOther, "; --verbose shows why these differ from the figures above"))
	}
}
