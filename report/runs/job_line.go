package runs

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
)

// Line is one attempt of a job, over all of its nodes. A figure that is not known is null in JSON
// and empty in CSV.
type Line struct {
	Job          string          `json:"job"` // see nameOf
	Cluster      string          `json:"cluster"`
	User         string          `json:"user"`
	Account      string          `json:"account"`
	Partition    string          `json:"partition"`
	Name         string          `json:"name"`
	State        string          `json:"state"`       // "running", "abandoned" or the outcome
	SlurmState   string          `json:"slurm_state"` // Slurm's own, where it says more: "PREEMPTED", "CANCELLED by root"
	ExitCode     rt.Opt[int64]   `json:"exit_code"`
	Start        time.Time       `json:"start"`
	End          *time.Time      `json:"end"`
	LastReading  *time.Time      `json:"last_reading"`
	ElapsedSecs  rt.Opt[float64] `json:"elapsed_secs"`
	Suspended    rt.Opt[float64] `json:"suspended_secs"` // not in ElapsedSecs
	LimitSecs    rt.Opt[float64] `json:"time_limit_secs"`
	TimePct      rt.Opt[float64] `json:"time_pct"`
	Nodes        int             `json:"nodes"`         // with a run here
	MissingNodes uint64          `json:"missing_nodes"` // without a run here
	Cores        rt.Opt[uint64]  `json:"cores"`
	CPUSecs      rt.Opt[float64] `json:"cpu_secs"`
	CPUPct       rt.Opt[float64] `json:"cpu_pct"`
	CPUMark      report.Mark     `json:"cpu_mark"`          // of both; empty if they are exact
	PeakBytes    rt.Opt[uint64]  `json:"memory_peak_bytes"` // on the node with the highest percentage
	MemoryPct    rt.Opt[float64] `json:"memory_pct"`
	MemoryMark   report.Mark     `json:"memory_mark"` // of both
	GPUs         rt.Opt[uint64]  `json:"gpus"`        // null if the GPUs of a node were not read
	GPUPct       rt.Opt[float64] `json:"gpu_pct"`
	CoreHours    rt.Opt[float64] `json:"core_hours"`
	UnusedHours  rt.Opt[float64] `json:"core_hours_unused"`
	UnusedMark   report.Mark     `json:"core_hours_unused_mark"`
	Attempts     int             `json:"attempts"` // this one and those before it

	LimitBytes     rt.Opt[uint64]  `json:"memory_limit_bytes"` // on the node of PeakBytes
	GPUHours       rt.Opt[float64] `json:"gpu_hours"`
	UnusedGPUHours rt.Opt[float64] `json:"gpu_hours_unused"`
	GiBHours       rt.Opt[float64] `json:"gib_hours"`
	UnusedGiBHours rt.Opt[float64] `json:"gib_hours_unused"`
	WasteHours     rt.Opt[float64] `json:"waste_core_hours"` // see report.Balance.Waste
	WasteMark      report.Mark     `json:"waste_mark"`
	WasteCost      rt.Opt[float64] `json:"waste_cost"` // null without a price in rt.toml

	Sum report.Sum `json:"-"` // the hours come from it
}

// Detail is a line with the advice: what rt-job JOB and the API of a site have of a job.
type Detail struct {
	Line
	Advice       []report.Advice `json:"advice"`
	AdviceReason string          `json:"advice_reason"` // why there is no advice to request less
}

// DetailsOf returns the lines of jobs with their advice.
func DetailsOf(jobs []*report.JobSummary, prices report.Prices) []Detail {
	list := []Detail{}
	for _, j := range jobs {
		list = append(list, Detail{LineOf(j, prices), append([]report.Advice{}, j.Advice...), j.AdviceReason})
	}
	return list
}

// LineOf returns the line of a job.
func LineOf(j *report.JobSummary, prices report.Prices) Line {
	n := j.Nodes
	l := Line{
		Job: nameOf(j), Cluster: j.Cluster, User: j.User, Account: j.Account, Partition: j.Partition, Name: j.Name, State: jobState(j), SlurmState: j.SlurmState, ExitCode: j.ExitCode,
		Start: j.Start, End: known(j.End), LastReading: known(j.LastReading), ElapsedSecs: j.ElapsedSecs, Suspended: j.SuspendedSecs, LimitSecs: j.LimitSecs, TimePct: j.TimePct,
		Nodes: j.Runs.Here(), MissingNodes: j.Missing, Cores: n.Cores, CPUSecs: n.UsedSecs, CPUPct: n.UsedPct, CPUMark: n.UsedMark,
		PeakBytes: n.Nodes[0].PeakBytes, MemoryPct: n.WorstPct, MemoryMark: n.Nodes[0].PeakMark,
		GPUPct: j.GPUs.BusyPct, Attempts: 1 + len(j.Earlier), LimitBytes: n.Nodes[0].LimitBytes,
	}
	if !j.GPUs.Unread {
		l.GPUs.Set(uint64(j.GPUs.Count))
	}
	l.setWaste(&j.Balance, prices)
	return l
}

func (l *Line) setWaste(b *report.Balance, prices report.Prices) {
	l.Sum = report.SumOf(b, prices)
	h := l.Sum.Hours(prices)
	l.CoreHours, l.UnusedHours, l.UnusedMark = h.CoreHours, h.UnusedCoreHours, b.CoreMark.Rest()
	l.GPUHours, l.UnusedGPUHours, l.GiBHours, l.UnusedGiBHours = h.GPUHours, h.UnusedGPUHours, h.GiBHours, h.UnusedGiBHours
	l.WasteHours, l.WasteMark, l.WasteCost = h.WasteHours, h.WasteMark, h.WasteCost
}

// nameOf returns what a JOB argument can be: the job's label, or the name of a run outside Slurm.
func nameOf(j *report.JobSummary) string {
	if r := &j.Runs[0].Run; !r.JobID.Valid() {
		return r.FileStem()
	}
	return j.Label
}

func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// end returns the time at which the job ended or was last read.
func (l *Line) end() time.Time {
	if t := cmp.Or(l.End, l.LastReading); t != nil {
		return *t
	}
	return l.Start
}

// ReadAgo returns the age of the last reading of a job that runs, in seconds.
func (l *Line) ReadAgo(now time.Time) (secs rt.Opt[float64]) {
	if isRunning := l.State == string(rt.StateRunning); isRunning && l.LastReading != nil {
		secs.Set(max(now.Sub(*l.LastReading).Seconds(), 0)) // the clock of another node can be ahead
	}
	return secs
}

// abandoned is the state of a job whose tracker has died.
const abandoned = "abandoned"

// jobState returns the state as one word.
func jobState(j *report.JobSummary) string {
	switch {
	case j.State != rt.StateRunning:
		return string(cmp.Or(j.Outcome, rt.OutcomeUnknown))
	case j.Abandoned():
		return abandoned
	}
	return string(rt.StateRunning)
}

// Records returns lines or sums as records of CSV. The first record has the names of the JSON fields.
func Records[T Line | Sum](list []T) [][]string {
	fields := slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[T]()), func(f reflect.StructField) bool {
		name := f.Tag.Get("json")
		return name == "" || name == "-"
	})
	var head []string
	for _, f := range fields {
		head = append(head, f.Tag.Get("json"))
	}
	out := [][]string{head}
	for i := range list {
		var record []string
		v := reflect.ValueOf(list[i])
		for _, f := range fields {
			record = append(record, cell(v.FieldByIndex(f.Index).Interface()))
		}
		out = append(out, record)
	}
	return out
}

func cell(v any) string {
	switch v := v.(type) {
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case *time.Time:
		if v == nil {
			return ""
		}
		return v.UTC().Format(time.RFC3339)
	case rt.Opt[float64]:
		if x, ok := v.Get(); ok {
			return strconv.FormatFloat(x, 'f', 4, 64)
		}
		return ""
	case rt.Opt[uint64]:
		if x, ok := v.Get(); ok {
			return fmt.Sprint(x)
		}
		return ""
	case rt.Opt[int64]:
		if x, ok := v.Get(); ok {
			return fmt.Sprint(x)
		}
		return ""
	}
	return printable.Cell(fmt.Sprint(v)) // no number here is below 0
}
