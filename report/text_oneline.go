package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// Forms are the forms of a report.
var Forms = []string{"text", "json", "markdown", "oneline"}

// Write writes a job in one of Forms, other than JSON.
func Write(w io.Writer, j *JobSummary, form string, o TextOptions) error {
	switch form {
	case "markdown":
		return WriteMarkdown(w, j, o)
	case "oneline":
		return WriteOneLine(w, j, o)
	}
	return WriteText(w, j, o)
}

// WriteArray writes an array in one of Forms, other than JSON.
func WriteArray(w io.Writer, a *Array, form string, o TextOptions) error {
	switch form {
	case "markdown":
		return writeArrayMarkdown(w, a)
	case "oneline":
		return writeArrayOneLine(w, a)
	}
	return writeArrayText(w, a, o)
}

// row is one line of the summary of a job.
type row struct {
	what, used, of string
	pct            rt.Opt[float64]
	mark           Mark // of pct
}

// rows returns the used part of each allocated resource, if both are known.
func (j *JobSummary) rows() []row {
	worst := j.Runs.worst()
	on := onlyIf(len(j.Runs) > 1, " on "+worst.Run.Node)
	used, allocated := j.Nodes.allocationText()
	all := []row{
		{"CPU", j.Nodes.UsedMark.Of(used), allocated, j.Nodes.UsedPct, j.Nodes.UsedMark},
		{"memory" + on, worst.Memory.PeakMemory.Text(), Size(worst.Memory.LimitBytes), worst.Memory.PeakPct, worst.Memory.PeakMark},
		{"GPU", "busy", plural(j.GPUs.Count, "GPU"), j.GPUs.BusyPct, Exact},
		{"time", Clock(j.ElapsedSecs), Clock(j.LimitSecs), j.TimePct, Exact},
	}
	return slices.DeleteFunc(all, func(r row) bool { return !r.pct.Valid() })
}

// WriteOneLine writes a job as one line, for a mail or the end of the job's own output.
func WriteOneLine(w io.Writer, j *JobSummary, o TextOptions) error {
	parts := []string{outcome(j, false)}
	if j.State == rt.StateRunning {
		parts[0] += onlyIf(j.age(o.Now) != "", " (last reading "+j.age(o.Now)+")")
	}
	if !j.TimePct.Valid() {
		parts = append(parts, Clock(j.ElapsedSecs))
	}
	for _, r := range j.rows() {
		of := r.of
		if r.what == "CPU" {
			of = cores(j.Nodes.Cores)
		}
		parts = append(parts, fmt.Sprintf("%s %s of %s", r.what, r.mark.Of(Number(r.pct, "%.0f %%")), of))
	}
	parts = append(parts, j.missingText())
	line := title(j.Runs[0]) + onlyIf(j.Name != "", " "+j.Name) + ": " + present(", ", parts...)
	line += requests(j.Advice)
	if j.State == rt.StateRunning { // else the advice says it
		line += j.killedSoFar()
	}
	return writeText(w, Plain(line)+"\n")
}

// killedSoFar says of a running job why processes of it were killed, what to request, and where more is. It is empty if none
// was killed for memory.
func (j *JobSummary) killedSoFar() string {
	s := j.killedOn()
	if s == nil {
		return ""
	}
	where := ""
	if len(s.OOM) > 0 {
		k := &s.OOM[0]
		where = onlyIf(k.Step != "", " in step "+k.Step) + onlyIf(k.Task.Valid(), ", task "+count(k.Task))
	}
	copied := *j
	copied.Advice = nil
	a := adviser{job: &copied, runs: []*JobSummary{&copied}, killedRun: s}
	a.killed(j.Runs.fewestCores())
	request := copied.Advice[0].shortRequest()
	return fmt.Sprintf("; killed for memory at the limit of %s%s%s%s; rt-job %s shows more", Size(s.Memory.LimitBytes), where, s.killedText(), onlyIf(request != "", ": "+request), j.Label)
}

// requests are the options of an advice for one line.
func requests(list []Advice) string {
	var options []string
	for i := range list {
		if r := list[i].shortRequest(); r != "" {
			options = append(options, r)
		}
	}
	return onlyIf(len(options) > 0, "; advice: "+strings.Join(options, " "))
}

// shortRequest is Request without its alternative, which is in the report.
func (a *Advice) shortRequest() string {
	request, _, _ := strings.Cut(a.Request, " (")
	return request
}

// WriteMarkdown writes a job as Markdown, for a ticket.
func WriteMarkdown(w io.Writer, j *JobSummary, o TextOptions) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s%s: %s\n\n", markdown(title(j.Runs[0])), onlyIf(j.Name != "", " "+markdown(j.Name)), markdown(outcome(j, o.Verbose)))
	r := &j.Runs[0].Run
	where := onlyIf(len(j.Runs) == 1 && r.Node != "", "node "+markdown(r.Node)) + onlyIf(len(j.Runs) > 1, plural(len(j.Runs), "node"))
	when := onlyIf(!j.Start.IsZero(), j.Start.In(o.Zone).Format("2006-01-02 15:04:05 MST"))
	b.WriteString(present(", ", markdown(j.Cluster), where, markdown(j.User), markdown(j.Account), markdown(j.Partition), when, "elapsed "+Clock(j.ElapsedSecs)) + "\n\n")
	if text := j.missingText(); text != "" {
		b.WriteString("**" + markdown(text) + "**\n\n")
	}
	if rows := j.rows(); len(rows) > 0 {
		b.WriteString("| | used | of | % |\n|---|---:|---:|---:|\n")
		for _, r := range rows {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", markdown(r.what), r.used, r.of, markdown(r.mark.Sign(Number(r.pct, "%.1f"))))
		}
		b.WriteString("\n")
	}
	if len(j.Runs) > 1 {
		b.WriteString("| node | CPU time | CPU % | memory | of | memory % |\n|---|---:|---:|---:|---:|---:|\n")
		for _, n := range j.Nodes.Nodes {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", markdown(n.Node), n.Used.Text(), markdown(n.UsedMark.Sign(Number(n.UsedPct, "%.1f"))), n.PeakMemory.Text(), Size(n.LimitBytes), markdown(n.PeakMark.Sign(Number(n.PeakPct, "%.1f"))))
		}
		b.WriteString("\n")
	}
	b.WriteString(adviceList(j.Advice, j.AdviceReason))
	return writeText(w, b.String())
}

// adviceList is the advice as a list in Markdown.
func adviceList(list []Advice, reason string) string {
	var b strings.Builder
	for i := range list {
		a := &list[i]
		what := "**" + a.Resource + "**"
		if a.Request != "" {
			what = "`" + a.Request + "`"
		}
		fmt.Fprintf(&b, "- %s%s: %s\n", what, onlyIf(a.Verdict == WellSized, " well sized"), markdown(a.Text))
	}
	if reason != "" && len(list) == 0 {
		b.WriteString("- no advice: " + markdown(reason) + "\n")
	}
	return b.String()
}

// markdown escapes the characters of Markdown's markup, because users choose the names.
func markdown(s string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "`", "\\`", "<", "&lt;", ">", "&gt;", "&", "&amp;", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "!", `\!`).Replace(Plain(s))
}
