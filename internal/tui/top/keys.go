package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// pressed does what a key means outside of a prompt.
func (m *model) pressed(key string) tea.Cmd {
	m.said = ""
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "?", "h", "f1":
		m.help = !m.help
		return nil
	case "ctrl+l":
		return tea.ClearScreen
	}
	if m.help {
		m.help = false // any key ends it
		return nil
	}
	if m.frame == nil {
		return nil
	}
	switch key {
	case "/":
		m.prompt, m.typed = filterPrompt, m.filter
	case "s", "S", "r":
		m.sort(key)
	case "space":
		return m.pause()
	case "a":
		m.all = !m.all
		return m.look()
	case "enter":
		return m.enter()
	case "esc", "backspace":
		return m.back()
	case "up", "k", "down", "j", "pgup", "pgdown", "g", "G":
		m.move(key)
	case "home", "end":
		if m.open != "" {
			return m.inTime(key)
		}
		m.move(key)
	case "tab":
		m.turn(m.page + 1)
	case "shift+tab":
		m.turn(m.page - 1)
	case "1", "2", "3", "4", "5", "6", "7", "8", "9":
		if to := int(key[0] - '1'); to < len(m.titles()) {
			m.turn(to)
		}
	default:
		if m.open != "" {
			return m.inTime(key)
		}
		m.shift(key)
	}
	return nil
}

// shift moves the columns of the matrix.
func (m *model) shift(key string) {
	p := m.program()
	switch {
	case p == nil || m.page != pageMatrix:
	case key == "left":
		m.first = max(m.first-1, 0)
	case key == "right":
		m.first = min(m.first+1, max(len(p.workers)-1, 0))
	}
}

// inTime is the keys that go through the time of a run.
func (m *model) inTime(key string) tea.Cmd {
	switch key {
	case "t":
		m.prompt, m.typed = timePrompt, ""
	case "left":
		return m.scrub(-time.Second)
	case "right":
		return m.scrub(time.Second)
	case "shift+left", "<", ",":
		return m.scrub(-time.Minute)
	case "shift+right", ">", ".":
		return m.scrub(time.Minute)
	case "home":
		return m.goTo(0)
	case "end":
		m.pace = following
		return m.look()
	}
	return nil
}

// turn goes to a page; beyond the last comes the first.
func (m *model) turn(to int) {
	n := len(m.titles())
	if n == 0 {
		return
	}
	m.page = (to + n) % n
	m.filter = ""
	m.keepCursor()
}

// enter opens what the cursor is at: a run, or the processes of a step.
func (m *model) enter() tea.Cmd {
	id := m.cursor[m.view()].id
	switch {
	case id == "" || m.program() != nil:
		return nil
	case m.open == "":
		m.open, m.page, m.filter, m.pace, m.at = id, pageJob, "", following, 0
		m.cursor = map[int]place{listView: m.cursor[listView]}
		m.frame = &Frame{Time: m.frame.Time, Where: m.frame.Where}
		return m.look()
	case m.page == pageSteps:
		step, _, _ := strings.Cut(id, "/")
		m.page, m.filter = pageProcesses, step
		m.keepCursor()
	}
	return nil
}

// back drops the filter, goes to the first page, or to the list.
func (m *model) back() tea.Cmd {
	switch {
	case m.filter != "":
		m.filter = ""
		m.keepCursor()
	case m.open != "" && m.page != pageJob:
		m.turn(pageJob)
	case m.open != "" && !m.single:
		m.open, m.pace, m.frame = "", following, m.list
		return m.look()
	}
	return nil
}

// move moves the cursor.
func (m *model) move(key string) {
	p := m.current()
	rows := m.rows(&p)
	c := m.cursor[m.view()]
	screen := max(m.height-len(p.head)-5, 1)
	switch key {
	case "up", "k":
		c.row--
	case "down", "j":
		c.row++
	case "pgup":
		c.row -= screen
	case "pgdown":
		c.row += screen
	case "g", "home":
		c.row = 0
	case "G", "end":
		c.row = len(rows)
	}
	m.cursor[m.view()] = c.within(rows)
}

// sort takes the next column that is shown, the one before, or turns the order around.
func (m *model) sort(key string) {
	p := m.current()
	o := m.order()
	widths := p.layout(p.rows, m.width-2)
	step := 1
	switch key {
	case "r":
		o.reverse = !o.reverse
		step = 0
	case "S":
		step = -1
	}
	for n := len(p.columns) + 1; step != 0 && n > 0; n-- {
		o.column += step
		if o.column < -1 {
			o.column = len(p.columns) - 1
		}
		if o.column >= len(p.columns) {
			o.column = -1
		}
		if o.column == -1 || widths[o.column] > 0 && p.columns[o.column].key != "" {
			break
		}
	}
	m.orders[m.view()] = o
	m.keepCursor()
}

// pause holds the moment, or lets it go on: to the newest where the run is tracked,
// through what has been where it is over.
func (m *model) pause() tea.Cmd {
	d := m.detail()
	switch {
	case m.pace == playing:
		m.pace = still
	case m.pace == following && d != nil && !d.Job.Live && m.single:
		m.pace, m.at = playing, 0 // it is over: from its beginning
		return m.look()
	case m.pace == following:
		if m.pace = still; d != nil {
			m.at = d.At
		}
	case d == nil || d.Job.Live:
		m.pace = following
		return m.look()
	default:
		if m.pace = playing; m.at >= d.Last {
			m.at = 0
		}
		return m.look()
	}
	return nil
}

// scrub goes on or back in time.
func (m *model) scrub(by time.Duration) tea.Cmd {
	d := m.detail()
	if d == nil {
		return nil
	}
	from := m.at
	if m.pace == following {
		from = d.At
	}
	return m.goTo(from + by)
}

// goTo shows a moment after the first reading.
func (m *model) goTo(at time.Duration) tea.Cmd {
	d := m.detail()
	if d == nil {
		return nil
	}
	m.at = max(min(at, d.Last), 0)
	if m.pace == following {
		m.pace = still
	}
	return m.look()
}

// write takes a key of a prompt.
func (m *model) write(k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "ctrl+c":
		return tea.Quit
	case "esc":
		if m.prompt == filterPrompt {
			m.filter = ""
		}
		m.prompt = noPrompt
	case "enter":
		done := m.prompt
		m.prompt = noPrompt
		if done == timePrompt {
			return m.goToTyped()
		}
	case "backspace":
		if r := []rune(m.typed); len(r) > 0 {
			m.typed = string(r[:len(r)-1])
		}
	default:
		m.typed += k.Text
	}
	if m.prompt == filterPrompt {
		m.filter = m.typed
	}
	m.keepCursor()
	return nil
}

func (m *model) goToTyped() tea.Cmd {
	d := m.detail()
	if d == nil || strings.TrimSpace(m.typed) == "" {
		return nil
	}
	at, err := parseMoment(m.typed, d.First.In(m.o.Zone))
	if err != nil {
		m.said = err.Error()
		return nil
	}
	if at < 0 || at > d.Last {
		m.said = fmt.Sprintf("%s is not within the run: it has %s from %s", m.typed, span(d.Last.Seconds()), d.First.In(m.o.Zone).Format(time.DateTime))
		return nil
	}
	return m.goTo(at)
}

// parseMoment reads seconds after the first reading, a duration such as 1m30s, or a
// time of the day: that on or after the first reading's.
func parseMoment(text string, first time.Time) (time.Duration, error) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.Sub(first), nil
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			y, m, d := first.Date()
			at := time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, first.Location())
			if at.Before(first.Truncate(time.Second)) {
				at = at.AddDate(0, 0, 1)
			}
			return max(at.Sub(first), 0), nil
		}
	}
	return 0, fmt.Errorf("%q is no moment of the run: give seconds after its first reading, such as 90 or 1m30s, or a time such as 12:30:05", text)
}
