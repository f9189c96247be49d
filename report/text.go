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
	Zone    *time.Location // of the times; nil is UTC
	Now     time.Time      // for the age of a running job's last reading; zero: it is not shown
}

// Columns of the text of a file, and of the labels on its left.
const (
	fileWidth  = 80
	labelWidth = 13
)

type page struct {
	strings.Builder
	width int // of the terminal, 0 for a file
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
	p.WriteString(strings.TrimRight(p.cut(text, max(p.width, 40)), " ") + "\n")
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

func (p *page) cpu(s *Summary, o TextOptions) {
	c := &s.CPU
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
	top := Peak(s.Series.Cores)
	p.spark(s.Series.Cores, top, fmt.Sprintf("0-%s", Significant(top)), o.ASCII)
	w := &s.Pressure
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

func (p *page) memory(s *Summary, o TextOptions) {
	m := &s.Memory
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
	peakOf, charged := onlyIf(m.PeakOf == "readings" && !isAtMost, " (highest reading)"), onlyIf(s.Scope == ScopeJob, " charged")
	if m.PeakOf == "container" {
		peakOf = " (the whole container)"
	}
	what := onlyIf(!isAtMost, "peak") + onlyIf(isAtMost, "highest reading")
	p.list("Memory", fmt.Sprintf("%s %s%s of %s %s%s, %s%s", what, m.PeakMemory.Text(), charged, Size(m.LimitBytes), of, s.perCore(), Number(m.PeakPct, "%.1f %%"), peakOf))
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
	top := Peak(s.Series.MemoryBytes)
	p.spark(s.Series.MemoryBytes, top, "0-"+bytes(rt.Some(top)), o.ASCII)
	faults := onlyIf(s.Faults.All.Valid(), "; page faults "+count(s.Faults.All)+", "+count(s.Faults.Major)+" from disk")
	p.fit("OOM kills", count(m.OOMKills)+because(m.OOMReason)+faults)
}

// perCore is the limit of memory divided by the allocated cores, in parentheses; empty for one core.
func (s *Summary) perCore() string {
	n := s.CPU.Cores.Or(0)
	isOwn := s.CPU.CoresOf == "allocation" && s.Memory.LimitOf != "node"
	if n < 2 || !isOwn || !s.Memory.LimitBytes.Valid() {
		return ""
	}
	return " (" + bytes(scaled(s.Memory.LimitBytes, 1/float64(n))) + " per core)"
}

// largestProcess writes the memory of a process that had more than any reading shows.
func (p *page) largestProcess(m *Memory) {
	if m.LargestProcessBytes.Or(0) > m.PeakBytes.Or(0) && m.PeakOf == "readings" {
		p.line("", "largest process %s, as the kernel reported at its end", Size(m.LargestProcessBytes))
	}
}

func (p *page) rest(s *Summary) {
	if s.IO.Reason != "" {
		p.line("Disk I/O", "not measured%s", because(s.IO.Reason))
	} else {
		p.fit("Disk I/O", fmt.Sprintf("read %s, written %s%s", s.IO.Mark.Of(Size(s.IO.ReadBytes)), s.IO.Mark.Of(Size(s.IO.WriteBytes)), onlyIf(s.IO.Of == "processes", " (/proc/PID/io)")))
	}
	if s.Processes.Reason != "" {
		p.line("Processes", "-%s", because(s.Processes.Reason))
		return
	}
	threads := onlyIf(s.Processes.MaxThreads.Valid(), ", "+count(s.Processes.MaxThreads)+" threads")
	p.line("Processes", "at least %s%s at the same time", count(s.Processes.Max), threads)
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
	cost := onlyIf(t.CPUSecs.Valid(), "; the tracker used "+Clock(t.CPUSecs)+", "+Size(t.MaxRSSBytes))
	p.fit("Readings", fmt.Sprintf("%s, %s, %s%s", taken, plural(s.Record.Gaps, "gap"), whole, cost))
	if n := len(s.Record.Budget); n > 0 {
		p.list("  budget", Plain(s.Record.Budget[n-1]))
	}
	p.notOK(s, o)
	if n := s.Record.Unseen; n > 0 {
		p.list("Note", fmt.Sprintf("%s of step %s continued on this node after %s, when the tracked one had ended: their use after that is not in these figures",
			plural(n, "other task"), Plain(s.Run.Step), s.Record.Last.In(o.Zone).Format("15:04:05")))
	}
	remarks := s.Record.Remarks
	if !o.Verbose {
		remarks = slices.DeleteFunc(slices.Clone(remarks), s.needsNoNote)
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
func (p *page) notOK(s *Summary, o TextOptions) {
	failed, absent := s.SensorsNotOK()
	for i, name := range failed {
		is := s.Sensors[name]
		p.list(onlyIf(i == 0, "Not ok"), Plain(name+" "+is.Status)+because(is.Detail))
	}
	if o.Verbose && len(absent) > 0 {
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
