package report

import (
	"fmt"
	"slices"

	"github.com/resource-tracker/rt"
)

// Advice is what to request of one resource next time.
type Advice struct {
	Resource string  `json:"resource"` // "memory", "cores", "time", "gpus", "tasks", "nodes"
	Verdict  Verdict `json:"verdict"`
	// Request is the option of sbatch; empty if there is none.
	Request string `json:"request,omitempty"`
	Text    string `json:"text"` // why, with figures
	// Explain has the data and the rule, for report --explain.
	Explain []string `json:"explain,omitempty"`
	Runs    int      `json:"runs"` // number of runs in the sample, with the job itself
	// RiskPct is a promise: at most this percentage of next runs need more than the request. It is
	// absent if nothing can be promised. MarginPct is the margin above the highest value of the sample.
	RiskPct   rt.Opt[float64] `json:"risk_pct"`
	MarginPct rt.Opt[float64] `json:"margin_pct"`
}

// String is the advice in one sentence: what to request, and why.
func (a *Advice) String() string {
	switch {
	case a.Request != "":
		return a.Request + ": " + a.Text
	case a.Verdict == WellSized:
		return a.Resource + " well sized: " + a.Text
	}
	return a.Resource + ": " + a.Text
}

// Verdict is the kind of an advice.
type Verdict string

// The verdicts.
const (
	Less      Verdict = "less"       // request less
	More      Verdict = "more"       // request more
	WellSized Verdict = "well sized" // leave the request as it is
	Least     Verdict = "least"      // a smaller request is not possible
	NotKnown  Verdict = "not known"  // the record does not show what is needed
)

// enough is the shortest elapsed time with which a run gets advice, in seconds.
const enough = 60

// worthwhile is a part of the present request. A smaller request is advised only if it is below this part.
const worthwhile = 0.8

// Advise sets Advice from the job and earlier jobs, sorted from the oldest. It uses only comparable
// earlier jobs, see isLike. Only a job that has finished, with a complete record, shows how little is
// enough.
//
// If the job's own record permits no advice to request less, AdviceReason is the reason. Advise then
// still advises after a kill for memory and after a time limit, and it reports idle GPUs.
func (j *JobSummary) Advise(earlier []*JobSummary) { j.advise(earlier, false) }

// advise does the work of Advise. isArray means that the advice is for a whole array. j and earlier are then its tasks.
func (j *JobSummary) advise(earlier []*JobSummary, isArray bool) {
	j.Advice, j.AdviceReason = nil, ""
	j.AdviceReason = j.Runs[0].whyNoRequest()
	if j.AdviceReason != "" {
		return
	}
	j.AdviceReason = j.whyNone()
	runs := append(slices.DeleteFunc(slices.Clone(earlier), func(e *JobSummary) bool { return !j.isLike(e) }), j)
	a := adviser{job: j, runs: runs, isArray: isArray, killedRun: j.killedOn()}
	if isArray {
		a.killedRun = killedTask(append(slices.Clone(earlier), j))
	}
	if j.AdviceReason != "" {
		a.killed(j.Runs.fewestCores())
		a.timedOut()
		a.idleGPUs()
		return
	}
	left := a.cores()
	a.memory(left)
	a.keepMemory()
	slices.Reverse(j.Advice) // memory first, because too little memory kills a job
	a.time()
	a.gpus()
	a.tasks()
	a.nodes()
}

// whyNoRequest returns why a run shows nothing about a request. It is empty for a run of a Slurm job.
func (s *Summary) whyNoRequest() string {
	switch {
	case s.Scope == ScopeJob:
		return ""
	case s.Partial != "":
		return "its readings have not arrived yet"
	case s.Run.JobID.Valid():
		return "the job's cgroup was not read"
	case s.Scope == ScopeNode:
		return "the whole node was recorded, not a job"
	}
	return "it ran outside Slurm, so that nothing was requested"
}

// whyNone returns why the job's record does not show what a complete run needs. It is empty if it does.
func (j *JobSummary) whyNone() string {
	kills := j.Nodes.OOMKills.Or(0)
	switch {
	case j.State == rt.StateRunning:
		return "the job is not over"
	case j.isSoFar():
		return "the last figures of the job are not here yet"
	case j.Missing > 0:
		return j.missingText()
	case j.Outcome == rt.OutcomeOOM || kills > 0:
		return "processes were killed for memory, so that this run does not show what a complete one needs"
	case j.Outcome != rt.OutcomeFinished:
		return "the job did not finish, so that this run does not show what a complete one needs"
	case !j.Complete():
		return "the record is not complete"
	case j.ElapsedSecs.Or(0) < enough:
		return fmt.Sprintf("the job was too short: less than %d s", enough)
	case j.Nodes.UsedMark != Exact:
		return "the end of the job was not read"
	case slices.ContainsFunc(j.Runs, (*Summary).hasGaps):
		return "readings are missing"
	}
	return ""
}

func (s *Summary) hasGaps() bool { return s.Record.Missed > 0 || s.Record.Gaps > 0 }

// adviser makes the advice of job. Its sample is the comparable runs, with job itself last.
type adviser struct {
	job     *JobSummary
	runs    []*JobSummary
	isArray bool // the advice is for an array whose tasks are the runs
	// killedRun was killed for memory: a run of job, or of a task of the array; nil for none.
	killedRun *Summary
}

func (a *adviser) add(one Advice) { a.job.Advice = append(a.job.Advice, one) }

// values returns a figure of each run that shows what a complete run needs.
func (a *adviser) values(of func(*JobSummary) rt.Opt[float64]) (list []sampleValue) {
	for _, r := range a.runs {
		if v, ok := of(r).Get(); ok && r.whyNone() == "" {
			list = append(list, sampleValue{value: v, isOwn: a.isOwn(r)})
		}
	}
	return list
}

// isOwn reports whether r is the job itself or another task of its array. One request is for all tasks of an array.
func (a *adviser) isOwn(r *JobSummary) bool {
	return r == a.job || isOfArray(&a.job.Runs[0].Run, &r.Runs[0].Run)
}

// predict makes a prediction from values. In the advice for an array, the highest value stands for the job's own.
func (a *adviser) predict(values []sampleValue, floor float64) prediction {
	p := predict(values, floor)
	if a.isArray {
		p.own = p.highest
	}
	return p
}

// sample describes the runs of a prediction, in parentheses. show formats their highest value.
func (p *prediction) sample(show func(float64) string) string {
	text := plural(p.n, "run")
	switch {
	case p.runs() == 1:
		text = "this run alone"
	case p.runs() > p.n:
		text = fmt.Sprintf("%d of %d runs", p.n, p.runs())
	}
	return fmt.Sprintf(" (from %s%s)", text, onlyIf(p.highest > p.own, " with up to "+show(p.highest)))
}

// explain says how a prediction was made. show formats its values.
func (p *prediction) explain(what string, show func(float64) string) []string {
	list := []string{
		fmt.Sprintf("sample: %s with a complete record and the same user, account, partition, name, directory, nodes, cores and GPUs, that requested up to twice or half as much", plural(p.n, "run")),
		fmt.Sprintf("%s: highest %s", what, show(p.highest)),
		fmt.Sprintf("if the next run is like these, it needs more than the highest with a probability of at most 1/%d (%.1f %%)", p.n+1, 100/float64(p.n+1)),
		fmt.Sprintf("margin: %.0f %% above the highest, then rounded up; it lowers the risk, but by how much depends on the job", p.margin*100),
	}
	if p.runs() > p.n {
		list = append(list, fmt.Sprintf("%s of the same kind had other values and are not in the sample", plural(p.runs()-p.n, "run")))
	}
	if p.above > 0 {
		list = append(list, fmt.Sprintf("%d of them had more, up to %s: if the next run can be like any, it needs more with a probability of at most %d/%d (%.1f %%)",
			p.above, show(p.aboveTop), p.above+1, p.runs()+1, 100*float64(p.above+1)/float64(p.runs()+1)))
	}
	return list
}

// promise sets the fields Runs, MarginPct and RiskPct of an advice from the prediction behind it.
func (p *prediction) promise(one *Advice) {
	one.Runs = p.n
	one.MarginPct.Set(p.margin * 100)
	hasPromise := !p.rising && p.bound <= p.highest
	if hasPromise {
		one.RiskPct.Set(p.risk() * 100)
	}
}

// tasks reports each step whose tasks waited for a task with more work. It leaves out a wait that is a small part of
// the job's time.
func (a *adviser) tasks() {
	const unequal = 1.5
	for i := range a.job.Steps {
		st := &a.job.Steps[i]
		x, ok := st.CPUImbalance.Get()
		longer := (x - 1) * st.UsedSecs.Or(0) / float64(max(st.Tasks, 1)) // CPU seconds of the busiest task above the mean
		matters := x >= unequal && longer > slower*a.job.ElapsedSecs.Or(0)
		if ok && matters {
			a.add(Advice{Resource: "tasks", Verdict: NotKnown, Runs: 1, Text: fmt.Sprintf("step %s: its busiest task used %.1f times the mean; the others waited", Plain(st.Step), x)})
		}
	}
}

// nodes names the nodes on which a job did almost nothing, if it worked on others.
func (a *adviser) nodes() {
	const idle, busy = 1, 10 // percent of the cores
	var names []string
	isBusy := false
	for _, n := range a.job.Nodes.Nodes {
		pct, ok := n.UsedPct.Get()
		if ok && pct < idle {
			names = append(names, Plain(n.Node))
		}
		isBusy = isBusy || pct >= busy
	}
	if len(names) == 0 || !isBusy {
		return
	}
	slices.Sort(names)
	a.add(Advice{Resource: "nodes", Verdict: NotKnown, Runs: 1, Text: fmt.Sprintf("on %d of %d less than %d %% of the cores were used (%s): check that the program uses several nodes", len(names), len(a.job.Nodes.Nodes), idle, FirstOf(names, 4))})
}
