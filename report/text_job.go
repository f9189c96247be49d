package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
)

// WriteText writes a job: what it used of its allocation, the advice, its nodes and steps, and the
// details of each of its runs.
func WriteText(w io.Writer, j *JobSummary, o TextOptions) error {
	p := page{width: o.Width}
	p.head(j, o)
	p.bars(j, o)
	p.advice(j.Advice, j.AdviceReason, o)
	p.nodes(j, o)
	for _, s := range j.Runs {
		if len(j.Runs) >= manyNodes {
			p.line("", "--node NODE shows one of them")
			break
		}
		if len(j.Runs) > 1 {
			p.WriteString("\nNode " + Plain(s.Run.Node) + "\n")
		}
		(&runPage{&p, s, o}).write()
	}
	return p.write(w)
}

// WriteDetails writes what a run used on its node, without its job.
func WriteDetails(w io.Writer, s *Summary, o TextOptions) error {
	p := page{width: o.Width}
	(&runPage{&p, s, o}).write()
	return p.write(w)
}

// manyNodes is the number of nodes from which a job's nodes are not shown one by one.
const manyNodes = 5

// runPage is the part of a page about a run on its node.
type runPage struct {
	*page
	sum *Summary
	o   TextOptions
}

// write writes the details of the run.
func (p *runPage) write() {
	p.scope()
	p.cpu()
	p.memory()
	p.oom()
	p.rest()
	p.steps()
	p.gpus()
	p.node()
	p.energy()
	p.jobEnergy()
	p.sensors()
	if p.sum.Sacct != nil {
		p.differences(p.sum.Sacct.Differences, p.o)
	}
	p.quality()
}

func (p *page) head(j *JobSummary, o TextOptions) {
	r := &j.Runs[0].Run
	name := onlyIf(j.Name != "", "  "+Plain(j.Name))
	what := p.cut(Plain(j.Title()), max(p.room()-len([]rune(name)), p.room()/2)) // a long command leaves room for it
	p.WriteString(strings.TrimRight(p.cut(what+name, p.room()), " ") + "\n")
	p.fit("Outcome", outcome(j, o.Verbose))
	where := onlyIf(r.Node != "", "node "+Plain(r.Node))
	if len(j.Runs) > 1 {
		where = plural(len(j.Runs), "node")
	}
	group := onlyIf(r.Group != j.User, r.Group)
	p.where(&j.Names, where, group, r.QOS)
	p.fit("When", j.StartText(o.Zone)+", elapsed "+j.ElapsedText(o.Zone, o.Now))
	for i := range j.Earlier {
		e := &j.Earlier[i]
		state := onlyIf(e.SlurmState != "", " (Slurm: "+Plain(e.SlurmState)+")")
		p.line(onlyIf(i == 0, "Earlier"), "attempt %d: %s%s, elapsed %s", e.Number, RequeuedText(e.Outcome), state, Clock(e.ElapsedSecs))
	}
	if text := j.missingText(); text != "" {
		p.list("Missing", text+"; the figures are those of "+onlyIf(len(j.Runs) == 1, "this node")+onlyIf(len(j.Runs) > 1, "these nodes"))
	}
}

// StartText formats the start of the job; "-" if it is not known.
func (j *JobSummary) StartText(zone *time.Location) string {
	if j.Start.IsZero() {
		return "-"
	}
	return j.Start.In(zone).Format("2006-01-02 15:04:05 MST")
}

// ElapsedText formats the elapsed time. The time of a running job ends at its last reading. The text has the time of
// that reading and, unless now is zero, its age.
func (j *JobSummary) ElapsedText(zone *time.Location, now time.Time) string {
	text := Clock(j.ElapsedSecs)
	if j.SuspendedSecs.Valid() {
		text += ", suspended " + Clock(j.SuspendedSecs)
	}
	if j.State == rt.StateRunning && !j.LastReading.IsZero() {
		age := j.age(now)
		text += " at the last reading, " + j.LastReading.In(zone).Format("15:04:05") + onlyIf(age != "", " ("+age+")")
	}
	return text
}

// age says how old the last reading of a running job is, "4.20 s ago"; empty if that is not known.
func (j *JobSummary) age(now time.Time) string {
	old := now.Sub(j.LastReading)
	isKnown := !now.IsZero() && !j.LastReading.IsZero()
	if !isKnown || old < 0 { // a copy from a node with another clock
		return ""
	}
	return Clock(rt.Some(old.Seconds())) + " ago"
}

// where writes what is known of where a job ran, and for whom.
func (p *page) where(n *Names, nodes, group, qos string) {
	named := func(label, name string) string { return onlyIf(name != "", label+Plain(name)) }
	if text := present(", ", named("cluster ", n.Cluster), nodes, named("user ", n.User), named("group ", group), named("account ", n.Account), named("partition ", n.Partition), named("QOS ", qos)); text != "" {
		p.list("Where", text)
	}
}

// scope writes what the figures belong to, if it is not the job's cgroup on this node.
func (p *runPage) scope() {
	switch p.sum.Scope {
	case ScopeTree:
		p.line("Scope", "the process tree of pid %s", count(p.sum.Run.PID))
	case ScopeNode:
		p.line("Scope", "the whole node")
	}
	if p.sum.Damage != "" {
		p.line("Damaged", "only the %d readings before the damage are counted", p.sum.Record.Readings)
	}
	if p.sum.Partial != "" {
		p.list("Partial", "only the readings that "+Plain(p.sum.Partial)+" has received")
	}
}

// Title names what was tracked, as the first line of the text does, without the job's name.
func (j *JobSummary) Title() string { return title(j.Runs[0]) }

func title(s *Summary) string {
	r := &s.Run
	switch {
	case r.Component() != "" && r.Step == "":
		return "Job " + r.Component() + onlyIf(r.JobID.Valid(), " (job id "+count(r.JobID)+")")
	case s.Label != "-":
		return "Job " + s.Label + onlyIf(r.ArrayTaskID.Valid() && r.JobID.Valid(), " (job id "+count(r.JobID)+")")
	case len(r.Command) > 0:
		return "Command " + Plain(strings.Join(r.Command, " "))
	case s.Scope == ScopeTree && r.PID.Valid():
		return "Process " + count(r.PID)
	case r.Node != "":
		return "Node " + Plain(r.Node)
	}
	return "Run"
}

func outcomeWord(o rt.Outcome) string {
	switch o {
	case rt.OutcomeNone:
		return "-"
	case rt.OutcomeOOM:
		return "oom (killed for memory)"
	case rt.OutcomeTerminated:
		return "cancelled or timed out"
	}
	return string(o)
}

// WithSlurmState is how a run ended, with Slurm's own state where that says more: "cancelled (PREEMPTED)", "cancelled by root".
func WithSlurmState(outcome, state string) string {
	word, by, _ := strings.Cut(state, " ")
	switch {
	case word == "":
		return outcome
	case strings.EqualFold(word, outcome):
		return outcome + " " + by
	}
	return outcome + " (" + state + ")"
}

// RequeuedText describes how an attempt ended after which the job was requeued. Slurm ends it for
// that as a cancellation does.
func RequeuedText(o rt.Outcome) string {
	switch o {
	case rt.OutcomeCancelled, rt.OutcomeTerminated, rt.OutcomeUnknown, rt.OutcomeNone:
		return "requeued"
	}
	return outcomeWord(o) + ", then requeued"
}

// OutcomeText describes how the job ended, as the text does without Verbose.
func (j *JobSummary) OutcomeText() string { return outcome(j, false) }

// outcome describes how the job ended. An exit code or signal is shown if it adds something:
// Slurm's 0:125 of an OOM kill and the codes of killed steps do not.
func outcome(j *JobSummary, isVerbose bool) string {
	isRunning := j.Outcome == rt.OutcomeNone && j.State == rt.StateRunning
	switch {
	case j.Abandoned() && isRunning:
		return "abandoned: its tracker has died; the next drain closes it"
	case isRunning:
		return "running"
	}
	out := present(", ", outcomeWord(j.Outcome), j.exitText())
	out += onlyIf(j.SlurmState != "", " (Slurm: "+Plain(j.SlurmState)+")")
	return out + onlyIf(isVerbose && j.OutcomeSource != "", " (source: "+Plain(j.OutcomeSource)+")")
}

// exitText has the exit code and the signal, if they say more than the outcome, and kills for memory in other processes.
func (j *JobSummary) exitText() string {
	code, signal, derived := j.ExitCode.Or(0), j.ExitSignal.Or(0), j.DerivedExit.Or(0)
	isKill := j.Outcome == rt.OutcomeOOM || j.Nodes.OOMKills.Or(0) > 0
	hasStep := derived != 0 && derived != code
	return present(", ", onlyIf(code != 0, fmt.Sprintf("exit code %d", code)),
		onlyIf(signal != 0 && !isKill, fmt.Sprintf("signal %d (%s)", signal, syscall.Signal(signal))),
		onlyIf(hasStep && !isKill, fmt.Sprintf("a step ended with exit code %d", derived)),
		onlyIf(isKill && j.Outcome != rt.OutcomeOOM, "processes were killed for memory (OOM)"))
}

// bars writes what was used of what was allocated, in percent. A command outside Slurm has the cores
// and the memory of its node.
func (p *page) bars(j *JobSummary, o TextOptions) {
	if j.Runs[0].Scope == ScopeNode {
		return
	}
	const ofNode = " (node)"
	n := j.Nodes
	if v, ok := n.UsedPct.Get(); ok {
		used, all := n.allocationText()
		p.bar("CPU", v, n.UsedMark.Sign(used)+" of "+all+onlyIf(n.CoresOf == "node", ofNode), o)
	}
	worst := j.Runs.worst()
	if v, ok := worst.Memory.PeakPct.Get(); ok {
		p.bar("Memory", v, fmt.Sprintf("%s of %s%s%s", worst.Memory.PeakMark.Sign(Size(worst.Memory.PeakBytes)), Size(worst.Memory.LimitBytes), onlyIf(worst.Memory.LimitOf == "node", ofNode)+onlyIf(worst.Memory.LimitOf == "container", " (container)"), onlyIf(len(j.Runs) > 1, " on "+Plain(worst.Run.Node))), o)
	}
	if v, ok := j.GPUs.BusyPct.Get(); ok {
		vram := onlyIf(j.GPUs.WorstVRAMPct.Valid(), Number(j.GPUs.WorstVRAMPct, "; memory at least %.0f %%"))
		p.bar("GPU", v, plural(j.GPUs.Count, "GPU")+", busy"+vram, o)
	}
	if v, ok := j.TimePct.Get(); ok {
		p.bar("Time", v, Clock(j.ElapsedSecs)+" of "+Clock(j.LimitSecs), o)
	}
}

// bar writes a bar of 20 characters, or 10 on a narrow screen.
func (p *page) bar(label string, pct float64, text string, o TextOptions) {
	p.fit(label, p.barText(pct, text, o))
}

func (p *page) barText(pct float64, text string, o TextOptions) string {
	n := 20
	if p.room() < 72 {
		n = 10
	}
	return fmt.Sprintf("[%s] %5.1f %%  %s", Bar(pct, n, o.ASCII), pct, text)
}

func cores(v rt.Opt[uint64]) string {
	if n, ok := v.Get(); ok {
		return plural(int(n), "core")
	}
	return "- cores"
}

// allocationText is the CPU time that was used, without its mark, and allocated: in core-hours, below one as a time.
func (n *Nodes) allocationText() (used, all string) {
	used, all = coreHours(n.UsedSecs), coreHours(n.AllocatedSecs)+" core-hours"
	if n.AllocatedSecs.Or(0) < 3600 {
		used, all = Clock(n.UsedSecs), Clock(n.AllocatedSecs)
	}
	return used, all + ", " + cores(n.Cores)
}

// advice writes what to request next time, or why the record does not show it.
func (p *page) advice(list []Advice, reason string, o TextOptions) {
	label := "Advice"
	for i := range list {
		p.list(label, list[i].String())
		label = ""
	}
	if reason != "" && len(list) == 0 {
		p.list("Advice", "none: "+reason)
	}
	for i := range list {
		a := &list[i]
		if o.Explain {
			p.list("  "+a.Resource, a.Explain...)
		}
	}
}

// nodes writes the nodes and steps of a job with several nodes.
func (p *page) nodes(j *JobSummary, o TextOptions) {
	n := j.Nodes
	if len(n.Nodes) < 2 {
		return
	}
	all := func(of func(NodeShare) rt.Opt[uint64]) string {
		return bytes(sumOf(n.Nodes, func(s NodeShare) rt.Opt[float64] { return rt.Scaled(of(s), 1) }))
	}
	p.list("Nodes", fmt.Sprintf("CPU max/mean %s; memory worst %s, mean %s of the limit, together %s of %s; OOM kills %s", Number(n.CPUImbalance, "%.2f"),
		Number(n.WorstPct, "%.1f %%"), Number(n.MeanPct, "%.1f %%"), all(func(s NodeShare) rt.Opt[uint64] { return s.PeakBytes }),
		all(func(s NodeShare) rt.Opt[uint64] { return s.LimitBytes }), count(n.OOMKills)))
	const shown = 8
	for i := range n.Nodes[:min(shown, len(n.Nodes))] { // the fullest memory first
		s := &n.Nodes[i]
		p.line("  "+Plain(s.Node), "CPU %s, %s; memory %s of %s, %s%s", s.Used.Text(), Number(s.UsedPct, "%.1f %%"),
			s.PeakMemory.Text(), Size(s.LimitBytes), Number(s.PeakPct, "%.1f %%"), onlyIf(!s.Complete, ", not complete"))
	}
	if more := len(n.Nodes) - shown; more > 0 {
		p.line("", "and %s with a lower peak", plural(more, "node"))
	}
	p.jobSteps(j)
	p.differences(n.Sacct, o)
}

// jobSteps writes the steps that used most, over all nodes.
func (p *page) jobSteps(j *JobSummary) {
	const shown = 6
	list := slices.DeleteFunc(slices.Clone(j.Steps), func(s JobStep) bool { return s.Step == "extern" && s.UsedSecs.Or(1) < 0.005 })
	if more := len(list) - shown; more > 0 {
		slices.SortStableFunc(list, func(a, b JobStep) int { return -cmp.Compare(a.UsedSecs.Or(0), b.UsedSecs.Or(0)) })
		list = list[:shown]
		defer func() { p.line("", "and %s that used less", plural(more, "step")) }()
	}
	for i := range list {
		s := &list[i]
		p.line(onlyIf(i == 0, "Steps"), "%-8s %s CPU, peak %s%s%s%s", Plain(s.Step), s.Used.Text(), s.PeakMemory.Text(),
			onlyIf(s.PeakNode != "", " on "+Plain(s.PeakNode)), onlyIf(s.Tasks > 1, "; "+plural(s.Tasks, "task")),
			onlyIf(s.CPUImbalance.Valid(), Number(s.CPUImbalance, ", max/mean: CPU %.2f")+Number(s.MemoryImbalance, ", memory %.2f")))
	}
}
