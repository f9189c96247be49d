package top

import (
	"fmt"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/tui"
)

// kind is the style of a line, as terminals that have styles read it.
type kind string

const (
	ordinary kind = ""
	headLine kind = "\x1b[1m"
	reversed kind = "\x1b[7m" // the title and the cursor
	red      kind = "\x1b[31m"
)

type line struct {
	kind kind
	text string
}

// View implements tea.Model. Styles add nothing to the text.
func (m *model) View() tea.View {
	var b strings.Builder
	for i, l := range m.screen() {
		if i > 0 {
			b.WriteByte('\n')
		}
		if l.kind == reversed {
			l.text = pad(l.text, m.brush.width, false)
		}
		if l.kind != ordinary {
			l.text = string(l.kind) + l.text + "\x1b[m"
		}
		b.WriteString(l.text)
	}
	return tui.Screen(b.String())
}

// screen returns a line for each line of the terminal.
func (m *model) screen() []line {
	var lines []line
	switch {
	case m.brush.width == 0 || m.height == 0:
		return nil
	case m.help:
		lines = m.helpLines()
	case m.frame == nil, m.open != "" && m.detail() == nil:
		lines = []line{{reversed, m.o.Name}, {ordinary, "reading ..."}}
	default:
		lines = m.pageLines()
	}
	for len(lines) < m.height {
		lines = append(lines, line{})
	}
	lines = lines[:m.height]
	lines[m.height-1] = line{ordinary, m.lastLine()}
	for i := range lines {
		lines[i].text = tui.Clip(lines[i].text, m.brush.width)
	}
	return lines
}

// pageLines returns the title, the page and, for a run, the timeline.
func (m *model) pageLines() []line {
	lines := []line{{reversed, m.title()}}
	below := 1 // the last line
	if len(m.titles()) > 0 {
		lines = append(lines, line{ordinary, m.tabs()})
	}
	if m.detail() != nil {
		below++
	}
	p := m.current()
	for _, h := range p.head {
		lines = append(lines, line{ordinary, report.Plain(h)})
	}
	lines = append(lines, m.table(&p, m.height-len(lines)-below)...)
	if d := m.detail(); d != nil {
		for len(lines) < m.height-below {
			lines = append(lines, line{})
		}
		lines = append(lines[:max(m.height-below, 0)], line{ordinary, d.timeLine(m.pace, m.brush.width, m.o.Zone)})
	}
	return lines
}

// title names the source and the time.
func (m *model) title() string {
	clock := m.frame.Time.In(m.o.Zone).Format(time.TimeOnly)
	if d := m.detail(); d != nil {
		return headline(d)
	}
	t := m.o.Name
	if m.pace != following {
		t = "PAUSED"
	}
	if p := m.program(); p != nil {
		return report.Plain(t + "  " + p.headline(m.frame.Where) + "  " + clock)
	}
	running := 0
	for i := range m.frame.Jobs {
		if m.frame.Jobs[i].Live {
			running++
		}
	}
	t += fmt.Sprintf("  %s  %s  %d runs, %d running", m.frame.Where, clock, len(m.frame.Jobs), running)
	if m.frame.Older > 0 {
		t += fmt.Sprintf(", %d older", m.frame.Older)
	}
	if n := len(m.frame.Problems); n > 0 {
		t += fmt.Sprintf(", %d unreadable", n)
	}
	return report.Plain(t)
}

// tabs lists the pages; if they do not fit, those around the shown one.
func (m *model) tabs() string {
	var out []string
	for i, title := range m.titles() {
		text := fmt.Sprintf("%d %s", i+1, title)
		if i == m.page {
			text = "[" + text + "]"
		}
		out = append(out, text)
	}
	for at := m.page; at > 0 && tui.Width(strings.Join(out, " ")) > m.brush.width; at-- {
		out = out[1:]
	}
	return strings.Join(out, " ")
}

// table returns the part of the page's table around the cursor.
func (m *model) table(p *page, height int) []line {
	if len(p.columns) == 0 || height < 1 {
		return nil
	}
	rows := p.sorted(m.filter, m.order())
	if len(rows) == 0 {
		text := p.empty
		if len(p.rows) > 0 {
			text = fmt.Sprintf("none of %d has %q", len(p.rows), m.filter)
		}
		return []line{{ordinary, report.Plain(text)}}
	}
	widths := p.layout(rows, m.brush.width-2, m.order())
	lines := []line{{headLine, "  " + p.titles(widths, m.order())}}
	height--
	c := m.cursor[m.view()].within(rows)
	from, to := c.Scroll(len(rows), height)
	m.cursor[m.view()] = c
	for i := from; i < to; i++ {
		l := line{ordinary, "  " + p.line(&rows[i], widths)}
		if rows[i].alarm {
			l = line{red, "! " + l.text[2:]}
		}
		if i == c.Row {
			l = line{reversed, ">" + l.text[1:]}
		}
		lines = append(lines, l)
	}
	return lines
}

// timeLine shows the position of the moment in the run.
func (d *Detail) timeLine(pace pace, width int, zone *time.Location) string {
	if d.Cur == nil {
		return "no readings"
	}
	how := [...]string{following: "newest", still: "PAUSED", playing: "playing"}[pace]
	if pace == following && !d.Job.Live {
		how = "end"
	}
	text := fmt.Sprintf(" %s of %s  %s  reading %d of %d  %s", span(d.At.Seconds()), span(d.Last.Seconds()),
		d.First.Add(d.At).In(zone).Format(time.TimeOnly), d.Index, d.Count, how)
	if old := d.At - d.Taken; old >= time.Second {
		text += fmt.Sprintf(" (%s old)", old.Truncate(time.Second))
	}
	n := max(width-tui.Width(text)-2, 0)
	at := 0
	if d.Last > 0 && n > 1 {
		at = int(float64(d.At) / float64(d.Last) * float64(n-1))
	}
	if n < 8 {
		return strings.TrimSpace(text)
	}
	return "[" + strings.Repeat("=", at) + "|" + strings.Repeat("-", n-1-at) + "]" + text
}

// lastLine is the prompt, an error, or the keys.
func (m *model) lastLine() string {
	switch {
	case m.prompt.IsOpen():
		return report.Plain(m.prompt.Line())
	case m.help:
		return "any key: back"
	case m.notice != "":
		return report.Plain(m.notice)
	case m.trouble != nil:
		return report.Plain("cannot read: " + m.trouble.Error())
	case m.frame != nil && m.frame.Note != "":
		return report.Plain(m.frame.Note)
	case m.filter != "":
		return fmt.Sprintf("filter %q (esc drops it)  ", report.Plain(m.filter)) + tui.Help(helpKey, tui.Quit)
	case m.o.Open != "":
		return tui.Help(runKeys...)
	case m.open != "":
		return tui.Help(append([]key.Binding{backKey}, runKeys...)...)
	case m.program() != nil:
		return tui.Help(nextPageKey, tui.Filter, sortKey, pauseKey, helpKey, tui.Quit)
	}
	return tui.Help(enterKey, tui.Filter, sortKey, pauseKey, allKey, helpKey, tui.Quit)
}

var runKeys = []key.Binding{nextPageKey, leftKey, timeKey, tui.Filter, sortKey, helpKey, tui.Quit}

// helpLines fit on 80 columns and 23 lines.
func (m *model) helpLines() []line {
	lines := []line{{reversed, m.o.Name + ": keys"}}
	for _, text := range strings.Split(strings.TrimSpace(helpText), "\n") {
		lines = append(lines, line{ordinary, text})
	}
	return lines
}

const helpText = `
up down k j     move; pgup pgdown by a screen; g G to the first and last row
enter           open a run; of a step: its processes
esc backspace   drop the filter; else back to the first page; else to the list
tab shift+tab   next and previous page of a run; 1 to 9 choose one
/               show only rows with a text: enter keeps it, esc drops it
s S r           sort by the next, the previous column; reverse the order
space           pause and continue; a run that has ended is played
a               in the list: also runs that ended more than a day ago, or not
left right      one second back, on; < > or with shift: one minute;
                of the matrix: the columns
home end        the run's first and newest reading; in a list: first, last row
t               go to a moment: 90 (seconds), 1m30s, 12:30:05
ctrl+l          redraw the screen
? h f1          this help
q ctrl+c        quit

CORES are in use now, OF are allocated, MEAN% is their mean use so far.
n/a was not read; - is not there; ! is above 90 % of its memory limit.`
