package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// Colors says which colors a text has. The zero value means none.
type Colors struct {
	On                bool
	Wasteful, Harmful float64 // percent, see the section waste of rt.toml
}

// Level is what a color means.
type Level string

// The levels, with the color of each.
const (
	Plainly  Level = ""
	Good     Level = "\x1b[32m" // green
	Wasteful Level = "\x1b[33m" // yellow
	Harmful  Level = "\x1b[31m" // red
)

const noColor = "\x1b[0m"

// Paint returns a text in the color of the level.
func (level Level) Paint(text string) string {
	if level == Plainly || text == "" {
		return text
	}
	return string(level) + text + noColor
}

// Name names the level: "good", "wasteful" or "harmful"; empty for none.
func (level Level) Name() string {
	return map[Level]string{Good: "good", Wasteful: "wasteful", Harmful: "harmful"}[level]
}

// OfUse is the level of the use of something that was reserved.
func (c *Colors) OfUse(pct rt.Opt[float64]) Level {
	v, ok := pct.Get()
	switch {
	case !ok || !c.On:
		return Plainly
	case v < c.Wasteful:
		return Wasteful
	}
	return Good
}

// OfMemory is the level of memory of a limit: as OfUse, and harmful near the limit.
func (c *Colors) OfMemory(pct rt.Opt[float64]) Level {
	if level := c.OfTime(pct); level == Harmful {
		return level
	}
	return c.OfUse(pct)
}

// OfTime is the level of a time of a limit. An unused rest of it is not reserved.
func (c *Colors) OfTime(pct rt.Opt[float64]) Level {
	switch {
	case !pct.Valid() || !c.On:
		return Plainly
	case pct.Or(0) >= c.Harmful:
		return Harmful
	}
	return Good
}

// OfOutcome is the level of how a job ended.
func (c *Colors) OfOutcome(o rt.Outcome) Level {
	switch {
	case !c.On:
		return Plainly
	case o == rt.OutcomeFinished:
		return Good
	case slices.Contains([]rt.Outcome{rt.OutcomeOOM, rt.OutcomeTimeout, rt.OutcomeFailed, rt.OutcomeLost, rt.OutcomeTerminated}, o):
		return Harmful
	}
	return Plainly
}

// Requeued is the SlurmState of a job whose last attempt has ended, and that waits again.
const Requeued = "REQUEUED"

// WaitsAgain is Requeued in a user's words.
const WaitsAgain = "waiting (requeued)"

// StateText says in a user's words whether the job runs, or how it ended.
func (j *JobSummary) StateText() string {
	if j.SlurmState == Requeued {
		return WaitsAgain
	}
	isRunning := j.Outcome == rt.OutcomeNone && j.State == rt.StateRunning
	if isRunning {
		state := cmp.Or(strings.ToLower(Plain(j.SlurmState)), "running")
		return state + onlyIf(j.Abandoned(), " when it was last seen")
	}
	return present(", ", StateWords(j.Outcome), j.exitText()) + onlyIf(j.SlurmState != "", " (Slurm: "+Plain(j.SlurmState)+")")
}

// StateWords are a user's words for an outcome.
func StateWords(o rt.Outcome) string {
	switch o {
	case rt.OutcomeOOM:
		return "killed: memory"
	case rt.OutcomeTimeout:
		return "killed: time limit"
	case rt.OutcomeTerminated:
		return "cancelled or timed out"
	case rt.OutcomeLost:
		return "lost: its end was not seen"
	case rt.OutcomeUnknown, rt.OutcomeNone:
		return "ended"
	}
	return string(o)
}

// WriteBrief writes a job in eight lines: its name, state and place, and what it used of its request. The last ones have
// the waste and what to request next time.
func WriteBrief(w io.Writer, j *JobSummary, o TextOptions) error {
	p := page{width: o.Width}
	p.briefHead(j, o)
	for _, one := range j.briefRows(o) {
		p.color = one.level
		text := one.text
		if v, ok := one.pct.Get(); ok {
			text = p.barText(v, text, o)
		}
		p.fit(one.label, text)
	}
	p.color = ""
	p.briefAdvice(j)
	return p.write(w)
}

// accountingDelay is the time after the end of a job in which its record of accounting can follow.
const accountingDelay = time.Hour

func (p *page) briefHead(j *JobSummary, o TextOptions) {
	state := j.StateText()
	if age := j.age(o.Now); j.State == rt.StateRunning && age != "" {
		state += " (last reading " + age + ")"
	}
	if isOld := j.isSoFar() && !j.LastReading.IsZero(); isOld {
		state += " (figures until " + Clock(rt.Some(max(0, j.End.Sub(j.LastReading).Seconds()))) + " before the end; the rest follows)"
	}
	isRecent := !o.Now.IsZero() && o.Now.Sub(j.End) < accountingDelay
	if j.Outcome == rt.OutcomeTerminated && j.OutcomeSource != "sacct" && isRecent {
		state += "; Slurm's record says which, within minutes"
	}
	p.WriteString(Plain(j.Title()+onlyIf(j.Name != "", "  "+j.Name)) + ": " + o.Colors.OfOutcome(j.Outcome).Paint(Plain(state)) + "\n")
	r := &j.Runs[0].Run
	where := onlyIf(r.Node != "", "node "+r.Node)
	here := j.Runs.Here()
	if n := uint64(here) + j.Missing; n > 1 && here > 0 { // else the node has all names
		where = fmt.Sprintf("%d nodes", n)
	}
	group := onlyIf(r.Group != "" && r.Group != j.User, "/"+r.Group)
	p.fit("Where", present(", ", where+onlyIf(j.Cluster != "", " of "+j.Cluster), onlyIf(j.Partition != "", "partition "+j.Partition),
		onlyIf(r.QOS != "", "QOS "+r.QOS), j.User+group, onlyIf(j.Account != "", "account "+j.Account)))
	if text := j.missingText(); text != "" {
		p.list("Missing", text+"; the figures are of the others")
	}
	if hasNothing := j.State == rt.StateRunning && j.LastReading.IsZero(); hasNothing && r.JobID.Valid() {
		p.list("Figures", fmt.Sprintf("not here yet; srun --jobid %d --overlap --pty rt-job watch", r.JobID.Or(0)))
	}
}

// briefRow is a line of a brief report: a text, after a bar if its percentage is known.
type briefRow struct {
	label, text string
	pct         rt.Opt[float64]
	level       Level
}

// briefRows returns the lines about resources and about the waste.
func (j *JobSummary) briefRows(o TextOptions) []briefRow {
	n, worst := j.Nodes, j.Runs.worst()
	used, all := n.allocationText()
	m := &worst.Memory
	cpu := n.UsedMark.Of(used) + " of " + all + onlyIf(n.CoresOf == "node", " (node)")
	memory := m.PeakMark.Sign(Size(m.PeakBytes)) + " of " + Size(m.LimitBytes) + onlyIf(m.LimitOf == "node", " (node)") + onlyIf(len(j.Runs) > 1, " on "+Plain(worst.Run.Node))
	unknown := "not known" + onlyIf(j.State == rt.StateRunning, " yet")
	if !n.UsedSecs.Valid() && !n.AllocatedSecs.Valid() {
		cpu = unknown + onlyIf(n.Cores.Valid(), ", "+cores(n.Cores))
	}
	if !m.PeakBytes.Valid() && !m.LimitBytes.Valid() {
		memory = unknown
	}
	list := []briefRow{{"CPU", cpu, n.UsedPct, o.Colors.OfUse(n.UsedPct)}, {"Memory", memory, m.PeakPct, o.Colors.OfMemory(m.PeakPct)}}
	if j.GPUs.Count > 0 || j.GPUs.Unread {
		vram := onlyIf(j.GPUs.WorstVRAMPct.Valid(), Number(j.GPUs.WorstVRAMPct, "; memory at least %.0f %%"))
		busy := onlyIf(j.GPUs.BusyPct.Valid(), ", busy") + onlyIf(!j.GPUs.BusyPct.Valid(), ", not measured")
		list = append(list, briefRow{"GPU", plural(max(j.GPUs.Count, j.Runs.allocatedGPUs()), "GPU") + busy + vram, j.GPUs.BusyPct,
			o.Colors.OfUse(j.GPUs.BusyPct)})
	}
	when := onlyIf(!j.Start.IsZero(), ", from "+j.Start.In(o.Zone).Format("2006-01-02 15:04:05"))
	suspended := onlyIf(j.SuspendedSecs.Valid(), ", suspended "+Clock(j.SuspendedSecs))
	limit := onlyIf(j.LimitSecs.Valid(), " of "+Clock(j.LimitSecs))
	waste := j.Balance.Waste(o.Prices)
	shares := j.Balance.WasteShares(o.Prices)
	return append(list,
		briefRow{"Time", Clock(j.ElapsedSecs) + limit + suspended + when, j.TimePct, o.Colors.OfTime(j.TimePct)},
		briefRow{"Waste", o.Prices.WasteText(waste, j.Balance.WasteMark()) + onlyIf(shares != "", " ("+shares+")"), rt.None[float64](), Plainly})
}

// briefAdvice writes what to request next time in one line, or why there is no advice.
func (p *page) briefAdvice(j *JobSummary) { p.list("Advice", j.ShortAdvice()) }

// ShortAdvice says what to request next time in one sentence, or why there is no advice.
func (j *JobSummary) ShortAdvice() string {
	change := j.Change()
	switch {
	case j.State == rt.StateRunning:
		return "when the job has ended"
	case change != "":
		return change
	case j.AdviceReason != "":
		return "none: " + j.AdviceReason
	}
	return "none: what was requested fits"
}

// Change says in one sentence what to change next time; empty if nothing is known.
func (j *JobSummary) Change() string {
	options, texts := j.Requests()
	return present("; ", onlyIf(options != "", "request "+options), texts)
}

// Requests returns the options to request next time, and what else to change.
func (j *JobSummary) Requests() (options, other string) {
	var requests, texts []string
	for i := range j.Advice {
		a := &j.Advice[i]
		request := a.shortRequest()
		isLeft := a.Verdict == WellSized || a.Verdict == Least
		switch {
		case request != "":
			requests = append(requests, request)
		case !isLeft:
			texts = append(texts, a.Resource+": "+a.Text)
		}
	}
	return strings.Join(requests, " "), strings.Join(texts, "; ")
}
