package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/resource-tracker/rt/tui"
)

// The keys of this screen only.
var (
	helpKey     = tui.Bind("?", "help", "?", "h", "f1")
	redrawKey   = tui.Bind("", "", "ctrl+l")
	sortKey     = tui.Bind("s", "sort", "s")
	sortBackKey = tui.Bind("", "", "S")
	reverseKey  = tui.Bind("", "", "r")
	pauseKey    = tui.Bind("space", "pause", "space")
	allKey      = tui.Bind("a", "all", "a")
	enterKey    = tui.Bind("enter", "open", "enter")
	backKey     = tui.Bind("esc", "back", "esc", "backspace")
	nextPageKey = tui.Bind("tab", "page", "tab")
	prevPageKey = tui.Bind("", "", "shift+tab")
	pageKeys    = tui.Bind("", "", "1", "2", "3", "4", "5", "6", "7", "8", "9")
	timeKey     = tui.Bind("t", "time", "t")
	firstKey    = tui.Bind("", "", "home")
	lastKey     = tui.Bind("", "", "end")
	leftKey     = tui.Bind("left right", "second", "left")
	rightKey    = tui.Bind("", "", "right")
	minuteBack  = tui.Bind("", "", "shift+left", "<", ",")
	minuteOn    = tui.Bind("", "", "shift+right", ">", ".")
)

// handleKey handles a key outside of a prompt.
func (m *model) handleKey(k tui.Key) tea.Cmd {
	m.notice = ""
	switch {
	case k.Is(tui.Quit):
		return tea.Quit
	case k.Is(helpKey):
		m.help = !m.help
		return nil
	case k.Is(redrawKey):
		return tea.ClearScreen
	case m.help:
		m.help = false // any key ends it
		return nil
	case m.frame == nil:
		return nil
	case m.open != "":
		if cmd, ok := m.inTime(k); ok {
			return cmd
		}
	}
	switch {
	case k.Is(tui.Filter):
		m.asks = filterPrompt
		m.prompt.Open(tui.FilterLabel, m.filter)
	case k.Is(pauseKey):
		return m.pauseTime()
	case k.Is(allKey):
		m.o.All = !m.o.All
		return m.readSource()
	case k.Is(enterKey):
		return m.openRow()
	case k.Is(backKey):
		return m.goBack()
	case k.Is(nextPageKey):
		m.turnTo(m.page + 1)
	case k.Is(prevPageKey):
		m.turnTo(m.page - 1)
	case k.Is(pageKeys):
		if to := int(k[0] - '1'); to < len(m.titles()) {
			m.turnTo(to)
		}
	case m.sortTable(k), m.moveCursor(k):
	case m.program() == nil || m.page != pageMatrix:
	case k.Is(leftKey):
		m.first = max(m.first-1, 0)
	case k.Is(rightKey):
		m.first = min(m.first+1, max(len(m.program().workers)-1, 0))
	}
	return nil
}

// inTime moves the moment of a run, and reports whether the key does that.
func (m *model) inTime(k tui.Key) (tea.Cmd, bool) {
	switch {
	case k.Is(timeKey):
		m.asks = timePrompt
		m.prompt.Open("go to (90, 1m30s or 12:30:05; esc: stay)", "")
		return nil, true
	case k.Is(leftKey):
		return m.moveTime(-time.Second), true
	case k.Is(rightKey):
		return m.moveTime(time.Second), true
	case k.Is(minuteBack):
		return m.moveTime(-time.Minute), true
	case k.Is(minuteOn):
		return m.moveTime(time.Minute), true
	case k.Is(firstKey):
		return m.goTo(0), true
	case k.Is(lastKey):
		m.pace = following
		return m.readSource(), true
	}
	return nil, false
}

// turnTo goes to a page; the first follows the last.
func (m *model) turnTo(to int) {
	n := len(m.titles())
	if n == 0 {
		return
	}
	m.page = (to + n) % n
	m.filter = ""
	m.keepCursor()
}

// openRow opens the run at the cursor, or the processes of the step at the cursor.
func (m *model) openRow() tea.Cmd {
	id := m.cursor[m.view()].id
	switch {
	case id == "" || m.program() != nil:
		return nil
	case m.open == "":
		m.open, m.page, m.filter, m.pace, m.at = id, pageJob, "", following, 0
		chosen := m.cursor[listView]
		chosen.moved = true
		m.cursor = map[int]place{listView: chosen}
		m.frame = &Frame{Time: m.frame.Time, Where: m.frame.Where}
		return m.readSource()
	case m.page == pageSteps:
		step, _, _ := strings.Cut(id, "/")
		m.page, m.filter = pageProcesses, step
		m.keepCursor()
	}
	return nil
}

// goBack drops the filter, goes to the first page, or to the list.
func (m *model) goBack() tea.Cmd {
	switch {
	case m.filter != "":
		m.filter = ""
		m.keepCursor()
	case m.open != "" && m.page != pageJob:
		m.turnTo(pageJob)
	case m.open != "" && m.o.Open == "":
		m.open, m.pace, m.frame = "", following, m.list
		return m.readSource()
	}
	return nil
}

// moveCursor moves the cursor, and reports whether the key does that.
func (m *model) moveCursor(k tui.Key) bool {
	p := m.current()
	rows := p.sorted(m.filter, m.order())
	c := m.cursor[m.view()]
	if !c.Move(k, len(rows), max(m.height-len(p.head)-5, 1)) {
		return false
	}
	c.moved = true
	m.cursor[m.view()] = c.within(rows)
	return true
}

// sortTable selects the next or previous visible column, or reverses the order. It reports
// whether the key does that.
func (m *model) sortTable(k tui.Key) bool {
	p := m.current()
	o := m.order()
	widths := p.layout(p.rows, m.brush.width-2, o)
	step := 0
	switch {
	case k.Is(sortKey):
		step = 1
	case k.Is(sortBackKey):
		step = -1
	case k.Is(reverseKey):
		o.reverse = !o.reverse
	default:
		return false
	}
	orders := len(p.columns) + 1 // with the original order, -1
	for n := orders; step != 0 && n > 0; n-- {
		o.column = (o.column+1+step+orders)%orders - 1
		isShown := o.column == -1 || (widths[o.column] > 0 && p.columns[o.column].key != "")
		if isShown {
			break
		}
	}
	m.orders[m.view()] = o
	m.keepCursor()
	return true
}

// pauseTime stops at the moment, or continues: with the last reading of a run that is
// tracked, else by playing the run.
func (m *model) pauseTime() tea.Cmd {
	d := m.detail()
	switch {
	case m.pace == playing:
		m.pace = still
	case m.pace == following && d != nil && !d.Job.Live && m.o.Open != "":
		m.pace, m.at = playing, 0 // it has ended: from its beginning
		return m.readSource()
	case m.pace == following:
		m.pace = still
		if d != nil {
			m.at = d.At
		}
	case d == nil || d.Job.Live:
		m.pace = following
		return m.readSource()
	default:
		m.pace = playing
		if m.at >= d.Last {
			m.at = 0
		}
		return m.readSource()
	}
	return nil
}

func (m *model) moveTime(by time.Duration) tea.Cmd {
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
	return m.readSource()
}

func (m *model) typeKey(k tea.KeyPressMsg) tea.Cmd {
	answer, text, d := m.prompt.Type(k), m.prompt.Text(), m.detail()
	switch {
	case answer == tui.Quitting:
		return tea.Quit
	case m.asks == timePrompt && answer == tui.Accepted && d != nil && strings.TrimSpace(text) != "":
		at, err := d.momentOf(text, m.o.Zone)
		if err != nil {
			m.notice = err.Error()
			return nil
		}
		return m.goTo(at)
	case m.asks == timePrompt:
		return nil
	case answer == tui.Cancelled:
		text = ""
	}
	m.filter = text
	m.keepCursor()
	return nil
}

// momentOf parses a moment of the run as the time after its first reading.
func (d *Detail) momentOf(text string, zone *time.Location) (time.Duration, error) {
	first := d.First.In(zone)
	at, err := parseMoment(text, first, first.Add(d.Last))
	isOutside := at < 0 || at > d.Last
	if err == nil && isOutside {
		err = fmt.Errorf("%q is not within the run: its readings are of %s from %s", text, span(d.Last.Seconds()), first.Format(time.DateTime))
	}
	return at, err
}

// parseMoment parses seconds after the first reading, or what tui.ParseMoment accepts.
func parseMoment(text string, first, last time.Time) (time.Duration, error) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second, nil
	}
	at, ok := tui.ParseMoment(text, first, last)
	if !ok {
		return 0, fmt.Errorf("%q is no moment of the run: give seconds after its first reading, such as 90 or 1m30s, or a time such as 12:30:05", text)
	}
	if at.Before(first) && !at.Before(first.Truncate(time.Second)) {
		at = first // a time in whole seconds means the reading in that second
	}
	return at.Sub(first), nil
}
