package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

func (p *page) write(w io.Writer) error { return writeText(w, p.String()) }

func writeText(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("report: write: %w", err)
	}
	return nil
}

// arrayRow is the distribution of one figure over the tasks of an array.
type arrayRow struct {
	label string
	of    *Distribution
	show  func(rt.Opt[float64]) string
}

// name is the label with the sign of the mark.
func (r *arrayRow) name() string { return r.label + onlyIf(r.of.Mark != Exact, " "+r.of.Mark.Sign("")) }

func (a *Array) rows() []arrayRow {
	percent := func(v rt.Opt[float64]) string { return Number(v, "%.1f %%") }
	return []arrayRow{
		{"Elapsed", &a.Elapsed, Clock}, {"CPU time", &a.Used, Clock}, {"  of alloc.", &a.UsedPct, percent},
		{"Memory", &a.Peak, bytes}, {"  of limit", &a.PeakPct, percent},
	}
}

// outcomesText is the number of tasks by outcome, "19 finished, 1 oom".
func (a *Array) outcomesText() string {
	var outcomes []string
	for _, name := range slices.Sorted(maps.Keys(a.Outcomes)) {
		outcomes = append(outcomes, fmt.Sprintf("%d %s", a.Outcomes[name], name))
	}
	return strings.Join(outcomes, ", ")
}

// unfinished returns the tasks that have ended and did not finish, those that were killed first.
func (a *Array) unfinished() []ArrayTask {
	bad := slices.DeleteFunc(slices.Clone(a.Tasks), func(t ArrayTask) bool {
		return t.Outcome == rt.OutcomeNone || t.Outcome == rt.OutcomeFinished
	})
	slices.SortStableFunc(bad, func(x, y ArrayTask) int { return y.Outcome.Certainty() - x.Outcome.Certainty() })
	return bad
}

// unfinishedText names tasks and how they ended.
func unfinishedText(tasks []ArrayTask) string {
	const named = 4
	var texts []string
	for _, t := range tasks[:min(named, len(tasks))] {
		texts = append(texts, Plain(t.Job)+" ("+StateWords(t.Outcome)+")")
	}
	if more := len(tasks) - named; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}

// others says where other tasks of an array can be. Whether there are any is not known: Slurm gives a
// node the ids of its own tasks only.
const others = "others can be on other nodes, or appear in some minutes"

// OnlyTask is a message if job is the id of an array with only one task here; otherwise it is empty.
func OnlyTask(job string, jobs []*JobSummary) string {
	array, ok := jobs[0].Runs[0].Run.ArrayJobID.Get()
	isArray := ok && job == fmt.Sprint(array)
	return onlyIf(isArray && len(jobs) == 1, fmt.Sprintf("%s is the only task of array %d here: %s", jobs[0].Label, array, others))
}

// TasksText names the tasks that are here; empty if there are none.
func (a *Array) TasksText() string {
	return onlyIf(a.TaskIDs != "", "task ids "+a.TaskIDs+" are here; "+others)
}

// writeArrayText writes the roll-up of an array as one screen.
func writeArrayText(w io.Writer, a *Array, o TextOptions) error {
	p := page{width: o.Width}
	p.WriteString(strings.TrimRight(p.cut("Array "+Plain(a.Job)+onlyIf(a.Name != "", "  "+Plain(a.Name)), p.room()), " ") + "\n")
	p.line("Tasks", "%d: %s", len(a.Tasks), a.outcomesText())
	if text := a.TasksText(); text != "" {
		p.list("", text)
	}
	bad := a.unfinished()
	if len(bad) > 0 {
		p.list("Not finished", unfinishedText(bad))
	}
	p.where(&a.Names, "", "", "")
	if a.Earlier > 0 {
		p.line("", "without %s", plural(a.Earlier, "earlier attempt"))
	}
	p.line("Complete", "%d of %d; the figures below are of these", a.Complete, len(a.Tasks))
	p.line("", "%10s %10s %10s %10s %10s", "min", "10 %", "median", "90 %", "max")
	for _, row := range a.rows() {
		d := row.of
		p.line(row.name(), "%10s %10s %10s %10s %10s", row.show(d.Min), row.show(d.P10), row.show(d.P50), row.show(d.P90), row.show(d.Max))
	}
	p.advice(a.Advice, a.AdviceReason, o)
	p.line("OOM kills", "%s", count(a.OOMKills))
	const shown = 10
	for i := range a.Outliers[:min(shown, len(a.Outliers))] {
		o := &a.Outliers[i]
		p.line(onlyIf(i == 0, "Outliers"), "%s on %s: %s", Plain(o.Job), Plain(o.Node), o.shown())
	}
	if more := len(a.Outliers) - shown; more > 0 {
		p.line("", "and %d more", more)
	}
	if shown := append(bad, a.Tasks...); len(shown) > 0 {
		p.WriteString("  rt-job " + Plain(shown[0].Job) + " shows one of them\n")
	}
	return p.write(w)
}
