package report

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/request"
)

// Kind is a kind of job that a user has run several times: comparable jobs, and what to request for the next one.
type Kind struct {
	Names
	WorkDir string    `json:"work_dir"`
	Start   time.Time `json:"start"` // of the newest job
	Jobs    int       `json:"jobs"`  // that show what a complete job needs
	// What the newest job had.
	Nodes       int             `json:"nodes"`
	Cores       rt.Opt[uint64]  `json:"cores"`
	GPUs        int             `json:"gpus"`
	LimitBytes  rt.Opt[float64] `json:"memory_limit_bytes"` // of a node
	LimitSecs   rt.Opt[float64] `json:"time_limit_secs"`
	PeakBytes   Range           `json:"memory_peak_bytes"` // of a node
	ElapsedSecs Range           `json:"elapsed_secs"`
	UsedCores   Range           `json:"cores_used"` // means
	// WasteHours is the waste of all comparable jobs, in core-hours.
	WasteHours rt.Opt[float64] `json:"waste_core_hours"`
	// Requests are options of sbatch that request less, and would have been enough for each of Jobs. "no GPU" is one too.
	Requests []string `json:"requests"`
	// More are options of sbatch that request more than the newest job had: it was killed, or needed nearly all.
	More []string `json:"more,omitempty"`
}

// Range has the lowest and the highest value.
type Range struct {
	Low  rt.Opt[float64] `json:"low"`
	High rt.Opt[float64] `json:"high"`
}

func (r *Range) add(v rt.Opt[float64]) {
	one, isKnown := v.Get()
	if !isKnown {
		return
	}
	r.Low.Set(min(one, r.Low.Or(math.Inf(1))))
	raise(&r.High, v)
}

// text formats the range. show formats a value.
func (r *Range) text(show func(rt.Opt[float64]) string) string {
	low, high := show(r.Low), show(r.High)
	if low == high {
		return high
	}
	_, lowUnit, _ := strings.Cut(low, " ")
	_, highUnit, _ := strings.Cut(high, " ")
	if lowUnit == highUnit {
		low, _, _ = strings.Cut(low, " ")
	}
	return low + " to " + high
}

// Kinds returns the kinds of the jobs of a user, the newest first. The jobs are sorted from the oldest; Kinds sets their
// advice.
func Kinds(jobs []*JobSummary, p Prices) (list []Kind) {
	seen := map[*JobSummary]bool{}
	var unclear []*JobSummary
	for _, j := range slices.Backward(jobs) {
		isUsable := isNamed(j.Name) && j.State != rt.StateRunning && j.Runs[0].whyNoRequest() == ""
		if seen[j] || !isUsable {
			continue
		}
		if j.Outcome == rt.OutcomeFinished && j.whyNone() != "" { // an earlier one can show more
			unclear = append(unclear, j)
			continue
		}
		like := []*JobSummary{j}
		for _, later := range unclear {
			if later.isLike(j) {
				like = append(like, later)
			}
		}
		for _, e := range jobs {
			if e.State != rt.StateRunning && j.isLike(e) {
				like = append(like, e)
				seen[e] = true
			}
		}
		j.Advise(jobs)
		list = append(list, j.kind(like, p))
	}
	return list
}

// kind returns the kind of j. like are the comparable jobs, with j itself.
func (j *JobSummary) kind(like []*JobSummary, p Prices) Kind {
	k := Kind{
		Names: j.Names, WorkDir: j.Runs[0].Run.WorkDir, Start: j.Start, Nodes: len(j.Runs), Cores: j.Nodes.Cores, GPUs: j.Runs.allocatedGPUs(),
		LimitBytes: j.Runs.limitBytes(), LimitSecs: j.LimitSecs, Requests: []string{},
	}
	var mostBytes, mostSecs rt.Opt[float64] // also of jobs that do not show what a complete one needs
	for _, e := range like {
		addKnown(&k.WasteHours, rt.Map(e.Balance.Waste(p), func(secs float64) float64 { return secs / 3600 }))
		raise(&mostBytes, e.Runs.boundPeak())
		raise(&mostSecs, e.ElapsedSecs)
		if e.whyNone() != "" {
			continue
		}
		k.Jobs++
		k.PeakBytes.add(e.Runs.peak())
		k.ElapsedSecs.add(e.ElapsedSecs)
		if used, elapsed, areKnown := rt.Both(e.Nodes.UsedSecs, e.ElapsedSecs); areKnown && elapsed > 0 {
			k.UsedCores.add(rt.Some(used / elapsed))
		}
	}
	for i := range j.Advice {
		if a := &j.Advice[i]; a.Verdict == More && a.Request != "" {
			k.More = append(k.More, a.shortRequest())
		}
	}
	k.setRequests(j.Advice, mostBytes.Or(math.Inf(1)), mostSecs.Or(math.Inf(1)))
	return k
}

// setRequests takes the options from an advice to request less. It leaves out memory and time that a comparable job has
// reached. With the memory it leaves out the cores: a request for each CPU shrinks with them.
func (k *Kind) setRequests(advice []Advice, mostBytes, mostSecs float64) {
	isMemorySafe := true
	for i := range advice {
		a := &advice[i]
		option := a.shortRequest()
		if a.Verdict != Less || option == "" {
			continue
		}
		isSafe := true
		switch r := optionsOf(option); a.Resource {
		case "memory":
			isSafe = a.RiskPct.Valid() && float64(r.MemoryBytes.Or(0)) > mostBytes
			isMemorySafe = isSafe
		case "time":
			isSafe = a.RiskPct.Valid() && r.TimeSecs.Or(0) > mostSecs
		case "cores":
			isSafe = isMemorySafe // the advice about memory is before it
		}
		if isSafe {
			k.Requests = append(k.Requests, option)
		}
	}
}

// optionsOf parses options of sbatch.
func optionsOf(text string) request.Request {
	o := request.Options{}
	o.Read(strings.Fields(text))
	return request.Of(o, nil, "")
}
