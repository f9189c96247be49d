package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/resource-tracker/rt/report"
)

var keyLine = Help(Bind("arrows", "move", "up", "down"), markKey, Filter, rateKey, zoomInKey, backKey, allKey, clearKey, Quit)

// listHeight returns the lines of the list: half of the screen without the titles.
func (m *model) listHeight() int { return max((m.height-4)/2, 1) }

// View implements tea.Model.
func (m *model) View() tea.View { return Screen(m.screen()) }

// screen returns a title, the list, the plots and the keys.
func (m *model) screen() string {
	if m.sum == nil || m.width == 0 {
		return "reading ...\n"
	}
	lines := []string{m.title(), fmt.Sprintf("   %10s %10s %10s %10s  %s", "MIN", "MEAN", "MAX", "LAST", "METRIC")}
	lines = append(lines, m.list()...)
	lines = append(lines, m.plots(m.height-len(lines)-1)...)
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	last := keyLine
	switch {
	case m.prompt.IsOpen():
		last = m.prompt.Line()
	case m.damage != nil:
		last = "damaged: " + m.damage.Error()
	}
	lines = append(lines[:max(m.height-1, 0)], report.Plain(last))
	for i, l := range lines {
		lines[i] = Clip(l, m.width)
	}
	return strings.Join(lines, "\n")
}

func (m *model) title() string {
	what := "values"
	if m.view.rate {
		what = "growth per second"
	}
	t := fmt.Sprintf("%s: %d readings, %s to %s, %s; %d of %d metrics", m.view.files[0].name, m.sum.data,
		clock(m.sum.first, m.sum), clock(m.sum.last, m.sum), what, len(m.shown), len(m.sum.metrics))
	if m.filter != "" {
		t += " match " + m.filter
	}
	return report.Plain(t)
}

// list returns the part of the list around the cursor.
func (m *model) list() (lines []string) {
	from, to := m.cursor.Scroll(len(m.shown), m.listHeight())
	for i := from; i < to; i++ {
		x := &m.sum.metrics[m.shown[i]]
		at, mark := ' ', ' '
		if i == m.cursor.Row {
			at = '>'
		}
		if m.marked[x.name] {
			mark = '*'
		}
		lines = append(lines, fmt.Sprintf("%c%c %10s %10s %10s %10s  %s", at, mark, short(x.min), short(x.mean()), short(x.max), short(x.last), report.Plain(x.name)))
	}
	return lines
}

// plots fills a height with as many readable plots as fit.
func (m *model) plots(height int) (lines []string) {
	const least = 7
	if m.drawn == nil || height < least {
		return nil
	}
	n := min(len(m.drawn.names), height/least)
	for i := range n {
		text := plot(m.drawn.names[i], m.drawn.values[i], m.sum, m.width, height/n-1)
		lines = append(lines, strings.Split(strings.TrimRight(text, "\n"), "\n")...)
	}
	if more := len(m.drawn.names) - n; more > 0 && len(lines) < height {
		lines = append(lines, fmt.Sprintf("and %d more that are marked", more))
	}
	return lines[:min(len(lines), height)]
}
