package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// TextOptions are the options of the screen.
type TextOptions struct {
	ASCII   bool           // no characters beyond ASCII in bars and sparklines
	Verbose bool           // with the source of the outcome, and the sensors that the node does not have
	Explain bool           // how the advice was made
	Width   int            // of the terminal: longer lines are cut; 0 for a file, in which no line is cut
	Zone    *time.Location // of the times
	Now     time.Time      // for the age of a running job's last reading; zero: it is not shown
	Prices  Prices         // of the waste
	Colors  Colors
}

// Columns of the text of a file, and of the labels on its left.
const (
	fileWidth  = 80
	labelWidth = 13
)

type page struct {
	strings.Builder
	width int // of the terminal, 0 for a file
	color Level
}

// room is the number of columns that text is broken at.
func (p *page) room() int {
	const narrowest, widest = 40, 100
	return min(max(cmp.Or(p.width, fileWidth), narrowest), widest)
}

// cut shortens a line to so many columns on a terminal.
func (p *page) cut(s string, columns int) string {
	if p.width == 0 {
		return s
	}
	return cut(s, columns)
}

// line writes a line: a label of 13 columns and the text.
func (p *page) line(label, format string, args ...any) {
	text := Plain(fmt.Sprintf("%-*s", labelWidth, label) + fmt.Sprintf(format, args...))
	text = strings.TrimRight(p.cut(text, max(p.width, 40)), " ")
	if len(text) > labelWidth {
		text = text[:labelWidth] + p.color.Paint(text[labelWidth:])
	}
	p.WriteString(text + "\n")
}

// fit writes a line. On a terminal that is too narrow it is broken between words.
func (p *page) fit(label, text string) {
	if p.width == 0 || labelWidth+len([]rune(text)) <= p.width {
		p.line(label, "%s", text)
		return
	}
	p.list(label, text)
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

func (p *runPage) cpu() {
	c := &p.sum.CPU
	if !c.UsedSecs.Valid() {
		p.line("CPU time", "-%s", because(c.Reason))
		return
	}
	of := " of " + Clock(c.AllocatedSecs) + " allocated"
	switch {
	case !c.AllocatedSecs.Valid():
		of = ""
	case c.CoresOf == "node":
		of = " of the node's " + Clock(c.AllocatedSecs)
	}
	p.fit("CPU time", c.Used.Text()+present(", ", of+onlyIf(c.Cores.Valid(), " ("+cores(c.Cores)+")"), onlyIf(c.UsedPct.Valid(), Number(c.UsedPct, "%.1f %%"))))
	p.fit("", fmt.Sprintf("%s cores on average, %s in the busiest interval", Number(c.MeanCores, "%.2f"), Number(c.PeakCores, "%.2f")))
	p.line("", "user %s, system %s", Clock(c.UserSecs), Clock(c.SystemSecs))
	top := Peak(p.sum.Series.Cores)
	p.spark(p.sum.Series.Cores, top, fmt.Sprintf("0-%s", Significant(top)), p.o.ASCII)
	w := &p.sum.Pressure
	more := present("; ",
		onlyIf(w.CPUPct.Valid() || w.MemoryPct.Valid() || w.IOPct.Valid(), fmt.Sprintf("waited: CPU %s, memory %s, I/O %s",
			Number(w.CPUPct, "%.1f %%"), Number(w.MemoryPct, "%.1f %%"), Number(w.IOPct, "%.1f %%"))),
		onlyIf(c.StepdSecs.Valid(), "+ slurmstepd "+Clock(c.StepdSecs)),
		onlyIf(c.AllowedCPUs != "", "CPU numbers "+Plain(c.AllowedCPUs)+", NUMA node numbers "+Plain(cmp.Or(c.AllowedMems, "-"))))
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

func (p *runPage) memory() {
	m := &p.sum.Memory
	if !m.PeakBytes.Valid() {
		p.line("Memory", "-%s", because(m.Reason))
		if m.AnonymousBytes.Valid() { // of a run that another program has recorded
			p.line("  anonymous", "%-9s max; can cause an OOM kill", Size(m.AnonymousBytes))
		}
		p.largestProcess(m)
		return
	}
	of := map[string]string{"cgroup": "limit", "allocation": "allocated", "node": "node memory", "container": "container limit"}[m.LimitOf]
	isAtMost := m.PeakMark == AtMost
	peakOf, charged := onlyIf(m.PeakOf == "readings" && !isAtMost, " (highest reading)"), onlyIf(p.sum.Scope == ScopeJob, " charged")
	if m.PeakOf == "container" {
		peakOf = " (the whole container)"
	}
	what := onlyIf(!isAtMost, "peak") + onlyIf(isAtMost, "highest reading")
	p.list("Memory", fmt.Sprintf("%s %s%s of %s %s%s, %s%s", what, m.PeakMemory.Text(), charged, Size(m.LimitBytes), of, p.sum.perCore(), Number(m.PeakPct, "%.1f %%"), peakOf))
	if isAtMost {
		p.list("", "it counts shared pages in each process"+onlyIf(m.PSSBytes.Valid(), "; where they count once, the highest reading is "+Size(m.PSSBytes)))
	}
	if m.TreePeak.PeakBytes.Valid() {
		p.line("  tree", "%s in the readings", m.TreePeak.Text())
	}
	p.largestProcess(m)
	if m.AnonymousBytes.Valid() || m.SharedBytes.Valid() {
		if m.AnonymousBytes.Valid() {
			p.line("  anonymous", "%-9s max; can cause an OOM kill", Size(m.AnonymousBytes))
		} else {
			p.line("  anonymous", "-%s", because(m.PartsReason))
		}
		p.line("  shared", "%-9s max; can cause an OOM kill", Size(m.SharedBytes))
		p.line("  file cache", "%-9s max; freed when memory is short", Size(m.FileBytes))
	} else {
		p.line("  parts", "-%s", because(m.PartsReason))
	}
	top := Peak(p.sum.Series.MemoryBytes)
	p.spark(p.sum.Series.MemoryBytes, top, "0-"+bytes(rt.Some(top)), p.o.ASCII)
	faults := onlyIf(p.sum.Faults.All.Valid(), "; page faults "+count(p.sum.Faults.All)+", "+count(p.sum.Faults.Major)+" from disk")
	p.fit("OOM kills", count(m.OOMKills)+because(m.OOMReason)+faults)
}

// perCore is the limit of memory divided by the allocated cores, in parentheses; empty for one core.
func (s *Summary) perCore() string {
	n := s.CPU.Cores.Or(0)
	isOwn := s.CPU.CoresOf == "allocation" && s.Memory.LimitOf != "node"
	if n < 2 || !isOwn || !s.Memory.LimitBytes.Valid() {
		return ""
	}
	return " (" + bytes(rt.Scaled(s.Memory.LimitBytes, 1/float64(n))) + " per core)"
}

// largestProcess writes the memory of a process that had more than any reading shows.
func (p *runPage) largestProcess(m *Memory) {
	if m.LargestProcessBytes.Or(0) > m.PeakBytes.Or(0) && m.PeakOf == "readings" {
		p.line("", "largest process %s, as the kernel reported at its end", Size(m.LargestProcessBytes))
	}
}

func (p *runPage) rest() {
	if p.sum.IO.Reason != "" {
		p.line("Disk I/O", "not measured%s", because(p.sum.IO.Reason))
	} else {
		p.fit("Disk I/O", fmt.Sprintf("read %s, written %s%s", p.sum.IO.Mark.Of(Size(p.sum.IO.ReadBytes)), p.sum.IO.Mark.Of(Size(p.sum.IO.WriteBytes)), onlyIf(p.sum.IO.Of == "processes", " (/proc/PID/io)")))
	}
	if p.sum.Processes.Reason != "" {
		p.line("Processes", "-%s", because(p.sum.Processes.Reason))
		return
	}
	threads := onlyIf(p.sum.Processes.MaxThreads.Valid(), ", "+count(p.sum.Processes.MaxThreads)+" threads")
	p.line("Processes", "at least %s%s at the same time", count(p.sum.Processes.Max), threads)
	p.topProcesses(p.sum.Processes.Top)
}

// quality writes how reliable the figures are, and the advice.
func (p *runPage) quality() {
	whole := "not complete"
	if p.sum.Record.Complete {
		whole = "complete"
	}
	taken := fmt.Sprint(p.sum.Record.Readings)
	if p.sum.Record.Expected > p.sum.Record.Readings {
		taken = fmt.Sprintf("%d of %d", p.sum.Record.Readings, p.sum.Record.Expected)
	}
	t := &p.sum.Record.Tracker
	cost := onlyIf(t.CPUSecs.Valid(), "; the tracker used "+Clock(t.CPUSecs)+", "+Size(t.MaxRSSBytes))
	p.fit("Readings", fmt.Sprintf("%s, %s, %s%s", taken, plural(p.sum.Record.Gaps, "gap"), whole, cost))
	if n := len(p.sum.Record.Budget); n > 0 {
		p.list("  budget", Plain(p.sum.Record.Budget[n-1]))
	}
	p.notOK()
	if n := p.sum.Record.Unseen; n > 0 {
		p.list("Note", fmt.Sprintf("%s of step %s continued on this node after %s, when the tracked one had ended: their use after that is not in these figures",
			plural(n, "other task"), Plain(p.sum.Run.Step), p.sum.Record.Last.In(p.o.Zone).Format("15:04:05")))
	}
	remarks := p.sum.Record.Remarks
	if !p.o.Verbose {
		remarks = slices.DeleteFunc(slices.Clone(remarks), p.sum.needsNoNote)
	}
	for _, remark := range remarks[:min(2, len(remarks))] {
		p.list("Note", Plain(remark))
	}
}

// needsNoNote reports whether a remark is about Slurm's own step, or about a step whose figures have marks.
func (s *Summary) needsNoNote(remark string) bool {
	one, isOfStep := missedEndOf(&rt.Event{Kind: "job", Name: "tasks", Detail: remark})
	isShown := isOfStep && slices.ContainsFunc(s.Steps, func(st Step) bool { return st.Step == one.step })
	return isShown || strings.Contains(remark, "step extern")
}

// notOK writes the sensors that failed. What the node does not have is only a remark.
func (p *runPage) notOK() {
	failed, absent := p.sum.SensorsNotOK()
	for i, name := range failed {
		is := p.sum.Sensors[name]
		p.list(onlyIf(i == 0, "Not ok"), Plain(name+" "+is.Status)+because(is.Detail))
	}
	if p.o.Verbose && len(absent) > 0 {
		p.list("Not measured", Plain(strings.Join(absent, ", ")))
	}
}

// SensorsNotOK returns the sorted names of the sensors that failed, and of those that the node does
// not have.
func (s *Summary) SensorsNotOK() (failed, absent []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Sensors)) {
		if s.Sensors[name].Status == "absent" {
			absent = append(absent, name)
			continue
		}
		failed = append(failed, name)
	}
	return failed, absent
}

// list writes each item on lines of its own, broken between words.
func (p *page) list(label string, items ...string) {
	for _, item := range items {
		line := ""
		for _, word := range strings.Fields(item) {
			if line != "" && len([]rune(line))+1+len([]rune(word)) > p.room()-labelWidth {
				p.line(label, "%s", line)
				label, line = "", ""
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
		p.line(label, "%s", line)
		label = ""
	}
}

// FirstOf lists the first n names, and how many more there are.
func FirstOf(names []string, n int) string {
	return strings.Join(names[:min(n, len(names))], ", ") + onlyIf(len(names) > n, fmt.Sprintf(" and %d more", len(names)-n))
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
