package ftdcview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Interact shows the view on the whole terminal until the user quits.
func (v *View) Interact(ctx context.Context, in io.Reader, out *os.File) error {
	m := &model{view: *v, marked: map[string]bool{}}
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out)).Run()
	switch {
	case errors.Is(err, tea.ErrInterrupted):
		err = nil
	case err != nil && ctx.Err() != nil:
		err = ctx.Err()
	case err != nil:
		err = fmt.Errorf("draw on the terminal: %w", err)
	}
	return errors.Join(err, m.failed)
}

// model is the state of the screen.
type model struct {
	view          View
	width, height int

	asked  int // loads that were asked for: an answer to an older one is stale
	sum    *Summary
	drawn  *series
	failed error // what ends the program
	damage error

	whole     struct{ first, last int64 } // of all that is in the files
	shown     []int                       // the metrics that the filter lets through
	cursor    int                         // in shown
	top       int                         // the first line of the list
	marked    map[string]bool
	filter    string
	filtering bool
}

// loaded is the answer to a load.
type loaded struct {
	asked int
	sum   *Summary
	drawn *series
	err   error
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return m.load() }

// load reads the files for what is to be shown now, aside of the screen.
func (m *model) load() tea.Cmd {
	m.asked++
	asked, view, names, width := m.asked, m.view, m.chosen(), m.width
	return func() tea.Msg {
		l := loaded{asked: asked}
		l.sum, l.err = view.Summarize()
		if l.err != nil && !errors.Is(l.err, ErrDamaged) {
			return l
		}
		if len(names) > 0 {
			for i, n := range names {
				names[i] = regexp.QuoteMeta(n)
			}
			some := view
			some.match = regexp.MustCompile("^(?:" + strings.Join(names, "|") + ")$")
			l.drawn, _ = some.series(l.sum, width-axisWidth) // its error is that of summarize
		}
		return l
	}
}

// chosen are the metrics to draw: those that are marked, else that of the cursor.
func (m *model) chosen() (names []string) {
	if m.sum == nil {
		return nil
	}
	for i := range m.sum.metrics {
		if n := m.sum.metrics[i].name; m.marked[n] {
			names = append(names, n)
		}
	}
	if len(names) == 0 && m.cursor < len(m.shown) {
		names = append(names, m.sum.metrics[m.shown[m.cursor]].name)
	}
	return names
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		return m, m.load()
	case loaded:
		return m, m.loaded(msg)
	case tea.KeyPressMsg:
		if m.filtering {
			return m, m.typed(msg)
		}
		return m, m.pressed(msg.String())
	}
	return m, nil
}

func (m *model) loaded(l loaded) tea.Cmd {
	if l.asked != m.asked {
		return nil
	}
	if l.err != nil && !errors.Is(l.err, ErrDamaged) {
		m.failed = l.err
		return tea.Quit
	}
	first := m.sum == nil
	m.sum, m.drawn, m.damage = l.sum, l.drawn, l.err
	if first {
		m.whole.first, m.whole.last = l.sum.first, l.sum.last
	}
	m.sift()
	if m.drawn == nil && len(m.shown) > 0 {
		return m.load() // now it is known what to draw
	}
	return nil
}

// sift applies the filter. A text that is no regular expression yet is taken as it is.
func (m *model) sift() {
	re, err := regexp.Compile("(?i)" + m.filter)
	if err != nil {
		re = regexp.MustCompile(regexp.QuoteMeta(m.filter))
	}
	m.shown = m.shown[:0]
	for i := range m.sum.metrics {
		if re.MatchString(m.sum.metrics[i].name) {
			m.shown = append(m.shown, i)
		}
	}
	m.cursor = max(min(m.cursor, len(m.shown)-1), 0)
}

// typed changes the filter.
func (m *model) typed(k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "ctrl+c":
		return tea.Quit
	case "enter":
		m.filtering = false
	case "esc":
		m.filtering, m.filter = false, ""
	case "backspace":
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	default:
		m.filter += k.Text
	}
	if m.sum == nil {
		return nil
	}
	m.sift()
	return m.load()
}

// pressed does what a key means outside of the filter.
func (m *model) pressed(key string) tea.Cmd {
	if key == "q" || key == "ctrl+c" {
		return tea.Quit
	}
	if m.sum == nil {
		return nil
	}
	page := m.listHeight()
	switch key {
	case "up", "k":
		m.cursor--
	case "down", "j":
		m.cursor++
	case "pgup":
		m.cursor -= page
	case "pgdown":
		m.cursor += page
	case "home", "g":
		m.cursor = 0
	case "end", "G":
		m.cursor = len(m.shown)
	case "space":
		if m.cursor < len(m.shown) {
			name := m.sum.metrics[m.shown[m.cursor]].name
			m.marked[name] = !m.marked[name]
			m.cursor++
		}
	case "esc":
		clear(m.marked)
		m.filter = ""
		m.sift()
	case "/":
		m.filtering = true
		return nil
	case "r":
		m.view.rate = !m.view.rate
	case "+", "=", "-", "left", "right", "h", "l", "0":
		m.zoom(key)
	default:
		return nil
	}
	m.cursor = max(min(m.cursor, len(m.shown)-1), 0)
	return m.load()
}

// zoom halves, doubles, moves or resets the range of time.
func (m *model) zoom(key string) {
	from, to := max(m.view.from, m.whole.first), min(m.view.to, m.whole.last)
	span := to - from
	switch key {
	case "+", "=":
		if span/2 < int64(time.Millisecond) {
			return
		}
		from, to = from+span/4, to-span/4
	case "-":
		from, to = from-span/2, to+span/2
	case "left", "h":
		step := min(span/2, from-m.whole.first)
		from, to = from-step, to-step
	case "right", "l":
		step := min(span/2, m.whole.last-to)
		from, to = from+step, to+step
	case "0":
		from, to = math.MinInt64, math.MaxInt64
	}
	if from <= m.whole.first && to >= m.whole.last {
		from, to = m.whole.first, m.whole.last
	}
	m.view.from, m.view.to = max(from, m.whole.first), min(to, m.whole.last)
}
