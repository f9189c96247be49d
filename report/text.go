package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// TextOptions are the options of the screen.
type TextOptions struct {
	ASCII   bool           // no characters beyond ASCII in sparklines
	Verbose bool           // with the source of the outcome
	Zone    *time.Location // of the times; nil is UTC
}

// Columns of the screen, and of the labels on its left.
const (
	width      = 80
	labelWidth = 13
)

// WriteText writes the summary as one screen of 80 columns: 24 lines for a small
// job, more if there are more steps, GPUs or networks.
func WriteText(w io.Writer, s *Summary, o TextOptions) error {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	p := page{}
	p.head(s, o)
	p.cpu(s, o)
	p.memory(s, o)
	p.oom(s, o)
	p.rest(s)
	p.steps(s)
	p.gpus(s)
	p.node(s)
	p.energy(s)
	p.jobEnergy(s)
	p.sensors(s)
	if s.Sacct != nil {
		p.differences(s.Sacct.Differences)
	}
	p.quality(s, o)
	return p.write(w)
}

type page struct{ strings.Builder }

// line writes a line: a label of 13 columns and the text.
func (p *page) line(label, format string, args ...any) {
	text := fmt.Sprintf("%-*s", labelWidth, label) + fmt.Sprintf(format, args...)
	p.WriteString(strings.TrimRight(cut(text, width), " ") + "\n")
}

// because returns the text that follows an absent figure.
func because(reason string) string { return onlyIf(reason != "", " ("+Plain(reason)+")") }

func onlyIf(condition bool, text string) string {
	if condition {
		return text
	}
	return ""
}

// present joins the texts that are not empty.
func present(sep string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), sep)
}

func (p *page) head(s *Summary, o TextOptions) {
	r := &s.Run
	name := onlyIf(r.Meta.JobName != "", "  "+Plain(r.Meta.JobName))
	what := cut(title(s), max(width-len([]rune(name)), width/2)) // a long command leaves room for it
	p.WriteString(strings.TrimRight(cut(what+name, width), " ") + "\n")
	p.line("Outcome", "%s", outcome(s, o.Verbose))
	named := func(label, name string) string { return onlyIf(name != "", label+Plain(name)) }
	p.line("Where", "%s", present(", ", named("cluster ", r.Cluster), named("node ", r.Node), named("user ", r.User),
		named("account ", r.Account), named("partition ", r.Partition)))
	when := "-"
	if !r.Start.IsZero() {
		when = r.Start.In(o.Zone).Format("2006-01-02 15:04:05 MST")
	}
	p.line("When", "%s, elapsed %s", when, span(s.ElapsedSecs))
	switch s.Scope { // the usual scope, the job's cgroup on this node, is not shown
	case ScopeTree:
		p.line("Scope", "the process tree of pid %s", count(r.PID))
	case ScopeNode:
		p.line("Scope", "the whole node")
	}
}

func title(s *Summary) string {
	r := &s.Run
	switch {
	case s.Label != "-":
		return "Job " + s.Label
	case len(r.Command) > 0:
		return "Command " + Plain(strings.Join(r.Command, " "))
	case s.Scope == ScopeTree && r.PID.Valid():
		return "Process " + count(r.PID)
	case r.Node != "":
		return "Node " + Plain(r.Node)
	}
	return "Run"
}

func outcome(s *Summary, isVerbose bool) string {
	r := &s.Run
	out := string(r.Outcome)
	switch {
	case s.Abandoned:
		return "abandoned: its tracker has died; the next drain closes it"
	case out == "" && r.State == rt.StateRunning:
		return "running"
	case out == "":
		out = "-"
	}
	out = present(", ", out, onlyIf(r.ExitCode.Valid(), number(r.ExitCode, "exit code %d")),
		onlyIf(r.ExitSignal.Or(0) != 0, number(r.ExitSignal, "signal %d")),
		onlyIf(r.DerivedExit.Or(r.ExitCode.Or(0)) != r.ExitCode.Or(0), number(r.DerivedExit, "%d in a step")))
	return out + onlyIf(isVerbose && r.OutcomeSource != "", " (source: "+Plain(r.OutcomeSource)+")")
}

func (p *page) cpu(s *Summary, o TextOptions) {
	c := &s.CPU
	if !c.UsedSecs.Valid() {
		p.line("CPU", "-%s", because(c.Reason))
		return
	}
	of := number(c.AllocatedSecs, "%.1f s") + " allocated"
	if c.CoresOf == "node" {
		of = "the node's " + number(c.AllocatedSecs, "%.1f s")
	}
	p.line("CPU", "%s of %s (%s cores), %s", seconds(c.UsedSecs), of, count(c.Cores), number(c.UsedPct, "%.1f %%"))
	p.line("", "%s cores mean, %s peak; user %s, system %s", number(c.MeanCores, "%.2f"), number(c.PeakCores, "%.2f"),
		seconds(c.UserSecs), seconds(c.SystemSecs))
	top := Peak(s.Series.Cores)
	p.spark(s.Series.Cores, top, fmt.Sprintf("0-%s", Significant(top)), o.ASCII)
	w := &s.Pressure
	more := present("; ",
		onlyIf(w.CPUPct.Valid() || w.MemoryPct.Valid() || w.IOPct.Valid(), fmt.Sprintf("waited: CPU %s, memory %s, I/O %s",
			number(w.CPUPct, "%.1f %%"), number(w.MemoryPct, "%.1f %%"), number(w.IOPct, "%.1f %%"))),
		onlyIf(c.StepdSecs.Valid(), "+ slurmstepd "+seconds(c.StepdSecs)),
		onlyIf(c.AllowedCPUs != "", "may use CPUs "+Plain(c.AllowedCPUs)+", NUMA nodes "+Plain(cmp.Or(c.AllowedMems, "-"))))
	if more != "" {
		p.list("", more)
	}
}

// spark writes a sparkline if there is more than one value.
func (p *page) spark(series []rt.Opt[float64], top float64, legend string, ascii bool) {
	if len(series) > 1 {
		p.WriteString("  " + Sparkline(series, top, ascii) + "  " + legend + "\n")
	}
}

func (p *page) memory(s *Summary, o TextOptions) {
	m := &s.Memory
	if !m.PeakBytes.Valid() {
		p.line("Memory", "-%s", because(m.Reason))
		if m.AnonymousBytes.Valid() { // of a run that another program has recorded
			p.line("  anonymous", "%-9s max; can cause an OOM kill", size(m.AnonymousBytes))
		}
		p.largestProcess(m)
		return
	}
	of := map[string]string{"cgroup": "limit", "allocation": "allocated", "node": "node memory"}[m.LimitOf]
	peakOf, charged := onlyIf(m.PeakOf == "readings", " (highest reading)"), onlyIf(s.Scope == ScopeJob, " charged")
	p.line("Memory", "peak %s%s of %s %s, %s%s", size(m.PeakBytes), charged, size(m.LimitBytes), of, number(m.PeakPct, "%.1f %%"), peakOf)
	p.largestProcess(m)
	if m.AnonymousBytes.Valid() || m.SharedBytes.Valid() {
		if m.AnonymousBytes.Valid() {
			p.line("  anonymous", "%-9s max; can cause an OOM kill", size(m.AnonymousBytes))
		} else {
			p.line("  anonymous", "-%s", because(m.PartsReason))
		}
		p.line("  shared", "%-9s max; can cause an OOM kill", size(m.SharedBytes))
		p.line("  file cache", "%-9s max; freed when memory is short", size(m.FileBytes))
	} else {
		p.line("  parts", "-%s", because(m.PartsReason))
	}
	top := Peak(s.Series.MemoryBytes)
	p.spark(s.Series.MemoryBytes, top, "0-"+bytes(rt.Some(top)), o.ASCII)
	faults := onlyIf(s.Faults.All.Valid(), "; page faults "+count(s.Faults.All)+", "+count(s.Faults.Major)+" from disk")
	p.line("OOM kills", "%s%s%s", count(m.OOMKills), because(m.OOMReason), faults)
}

// largestProcess writes the memory of a process that had more than any reading shows.
func (p *page) largestProcess(m *Memory) {
	if m.LargestProcessBytes.Or(0) > m.PeakBytes.Or(0) && m.PeakOf == "readings" {
		p.line("", "largest process %s, as the kernel reported at its end", size(m.LargestProcessBytes))
	}
}

func (p *page) rest(s *Summary) {
	if s.IO.Reason != "" {
		p.line("Disk I/O", "not measured%s", because(s.IO.Reason))
	} else {
		p.line("Disk I/O", "read %s, written %s%s", size(s.IO.ReadBytes), size(s.IO.WriteBytes), onlyIf(s.IO.Of == "processes", " (as its processes counted)"))
	}
	if s.Processes.Reason != "" {
		p.line("Processes", "-%s", because(s.Processes.Reason))
		return
	}
	threads := onlyIf(s.Processes.MaxThreads.Valid(), ", "+count(s.Processes.MaxThreads)+" threads")
	p.line("Processes", "%s%s at most", count(s.Processes.Max), threads)
	p.topProcesses(s.Processes.Top)
}

// quality writes how reliable the figures are, and the advice.
func (p *page) quality(s *Summary, o TextOptions) {
	whole := "not complete"
	if s.Record.Complete {
		whole = "complete"
	}
	taken := fmt.Sprint(s.Record.Readings)
	if s.Record.Expected > s.Record.Readings {
		taken = fmt.Sprintf("%d of %d", s.Record.Readings, s.Record.Expected)
	}
	t := &s.Record.Tracker
	cost := onlyIf(t.CPUSecs.Valid(), "; the tracker used "+seconds(t.CPUSecs)+", "+size(t.MaxRSSBytes))
	p.line("Readings", "%s, %s, %s%s", taken, plural(s.Record.Gaps, "gap"), whole, cost)
	if n := len(s.Record.Budget); n > 0 {
		p.list("  budget", Plain(s.Record.Budget[n-1]))
	}
	var sensors []string
	for _, name := range slices.Sorted(maps.Keys(s.Sensors)) {
		is := s.Sensors[name]
		detail := is.Detail
		if words, ok := absences[name]; ok && is.Status == "absent" {
			detail = words
		}
		sensors = append(sensors, Plain(name+" "+is.Status)+because(detail))
	}
	p.list("Not ok", sensors...)
	if n := s.Record.Unseen; n > 0 {
		p.list("Note", fmt.Sprintf("%s of step %s continued on this node after %s, when the tracked one had ended: their use after that is not in these figures",
			plural(n, "other task"), Plain(s.Run.Step), s.Record.Last.In(o.Zone).Format("15:04:05")))
	}
	for _, remark := range s.Record.Remarks[:min(2, len(s.Record.Remarks))] {
		p.list("Note", Plain(remark))
	}
	p.list("Advice", s.Advice...)
}

// list writes each item on lines of its own, broken between words.
func (p *page) list(label string, items ...string) {
	for _, item := range items {
		line := ""
		for _, word := range strings.Fields(item) {
			if line != "" && len([]rune(line))+1+len([]rune(word)) > width-labelWidth {
				p.line(label, "%s", line)
				label, line = "", ""
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
		p.line(label, "%s", line)
		label = ""
	}
}

func plural(n int, what string) string {
	many := what + "s"
	if strings.HasSuffix(what, "ss") {
		many = what + "es"
	}
	switch n {
	case 0:
		return "no " + many
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %s", n, many)
}
