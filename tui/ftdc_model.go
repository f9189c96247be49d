package tui

import (
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Interact shows the view on the whole terminal until the user quits.
func (v *FTDCView) Interact(ctx context.Context, in io.Reader, out *os.File) error {
	m := newModel(v)
	return errors.Join(Run(ctx, m, in, out), m.failed)
}

type model struct {
	view          FTDCView
	width, height int

	asked  int // number of the last load: an answer to an older one is stale
	sum    *FTDCSummary
	drawn  *series
	failed error // what ends the program
	damage error

	whole  struct{ first, last int64 } // times of all readings
	shown  []int                       // indices of the metrics that match the filter
	cursor Cursor                      // in shown
	marked map[string]bool
	filter string
	prompt Prompt // for filter
}

func newModel(v *FTDCView) *model { return &model{view: *v, marked: map[string]bool{}} }

type loaded struct {
	asked int
	sum   *FTDCSummary
	drawn *series
	err   error
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return m.load() }

// load reads the files in the background, for the current view.
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
			l.drawn, _ = some.series(l.sum, width-axisWidth) // Summarize returns the same error
		}
		return l
	}
}

// chosen returns the metrics to draw: the marked ones, else the one at the cursor.
func (m *model) chosen() (names []string) {
	if m.sum == nil {
		return nil
	}
	for i := range m.sum.metrics {
		if n := m.sum.metrics[i].name; m.marked[n] {
			names = append(names, n)
		}
	}
	if len(names) == 0 && m.cursor.Row < len(m.shown) {
		names = append(names, m.sum.metrics[m.shown[m.cursor.Row]].name)
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
		return m, m.useLoaded(msg)
	case tea.KeyPressMsg:
		if m.prompt.IsOpen() {
			return m, m.typeKey(msg)
		}
		return m, m.handleKey(Key(msg.String()))
	}
	return m, nil
}

func (m *model) useLoaded(l loaded) tea.Cmd {
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
	m.applyFilter()
	if m.drawn == nil && len(m.shown) > 0 {
		return m.load() // the metric to draw is known now
	}
	return nil
}

// applyFilter applies the filter. A text that is no regular expression is matched literally.
func (m *model) applyFilter() {
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
	m.cursor.Bound(len(m.shown))
}

func (m *model) typeKey(k tea.KeyPressMsg) tea.Cmd {
	switch m.prompt.Type(k) {
	case Quitting:
		return tea.Quit
	case Cancelled:
		m.filter = ""
	default:
		m.filter = m.prompt.Text()
	}
	if m.sum == nil {
		return nil
	}
	m.applyFilter()
	return m.load()
}

// The keys of this screen only.
var (
	markKey    = Bind("space", "mark", "space")
	rateKey    = Bind("r", "rate", "r")
	zoomInKey  = Bind("+ -", "zoom", "+", "=")
	zoomOutKey = Bind("", "", "-")
	backKey    = Bind("left right", "pan", "left", "h")
	onKey      = Bind("", "", "right", "l")
	allKey     = Bind("0", "all", "0")
	clearKey   = Bind("esc", "clear", "esc")
)

// handleKey handles a key outside of the prompt.
func (m *model) handleKey(k Key) tea.Cmd {
	switch {
	case k.Is(Quit):
		return tea.Quit
	case m.sum == nil:
		return nil
	case m.cursor.Move(k, len(m.shown), m.listHeight()):
	case k.Is(markKey):
		m.markRow()
	case k.Is(clearKey):
		clear(m.marked)
		m.filter = ""
		m.applyFilter()
	case k.Is(Filter):
		m.prompt.Open(FilterLabel, m.filter)
		return nil
	case k.Is(rateKey):
		m.view.rate = !m.view.rate
	case !m.zoomTime(k):
		return nil
	}
	return m.load()
}

func (m *model) markRow() {
	if m.cursor.Row < len(m.shown) {
		name := m.sum.metrics[m.shown[m.cursor.Row]].name
		m.marked[name] = !m.marked[name]
		m.cursor.Row++
		m.cursor.Bound(len(m.shown))
	}
}

// zoomTime halves, doubles, moves or resets the time range, and reports whether the key
// does that.
func (m *model) zoomTime(k Key) bool {
	from, to := max(m.view.from, m.whole.first), min(m.view.to, m.whole.last)
	span := to - from
	switch {
	case k.Is(zoomInKey):
		if span/2 < int64(time.Millisecond) {
			return true
		}
		from, to = from+span/4, to-span/4
	case k.Is(zoomOutKey):
		from, to = from-span/2, to+span/2
	case k.Is(backKey):
		step := min(span/2, from-m.whole.first)
		from, to = from-step, to-step
	case k.Is(onKey):
		step := min(span/2, m.whole.last-to)
		from, to = from+step, to+step
	case k.Is(allKey):
		from, to = m.whole.first, m.whole.last
	default:
		return false
	}
	m.view.from, m.view.to = max(from, m.whole.first), min(to, m.whole.last)
	return true
}
