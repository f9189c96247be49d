package top

import (
	"context"
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/resource-tracker/rt/tui"
)

// pace is how the shown moment moves.
type pace int

const (
	following pace = iota // it shows the last reading
	still                 // it stays
	playing               // it passes through the run in real time
)

// asks is what the prompt asks for.
type asks int

const (
	filterPrompt asks = iota
	timePrompt
)

type model struct {
	ctx    context.Context
	src    Source
	o      Options
	brush  brush
	height int

	frame   *Frame
	list    *Frame // the last one of the list
	failed  error  // what ends the program
	trouble error  // of the last Read
	busy    bool   // a Read is under way
	again   bool   // and its answer is stale

	open  string        // the run in detail; empty is the list
	page  int           // index in pages if a run is open, or in programPages
	first int           // the first column of the matrix
	at    time.Duration // the moment, if the pace is not following
	pace  pace
	help  bool

	cursor map[int]place // by view
	orders map[int]order
	filter string
	prompt tui.Prompt
	asks   asks
	notice string // error of the typed text
}

// place is the cursor and the row that it is at. It stays at the first row until a key moves it or opens the row.
type place struct {
	tui.Cursor
	id    string
	moved bool
}

// listView is the view that is not in pages.
const listView = -1

func newModel(ctx context.Context, src Source, o Options) *model {
	m := &model{
		ctx: ctx, src: src, o: o, brush: brush{ascii: o.ASCII},
		open: o.Open, cursor: map[int]place{}, orders: map[int]order{},
	}
	if m.open != "" && o.At >= 0 {
		m.pace, m.at = still, o.At
	}
	return m
}

type answered struct {
	wanted Wanted
	frame  *Frame
	err    error
}

// interval is the time between two readings of the source.
const interval = time.Second

// tick is sent after each interval.
type tick struct{}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tea.Batch(m.readSource(), nextTick()) }

func nextTick() tea.Cmd {
	return tea.Tick(interval, func(time.Time) tea.Msg { return tick{} })
}

// readSource reads the source in the background, for the current view.
func (m *model) readSource() tea.Cmd {
	if m.busy {
		m.again = true
		return nil
	}
	m.busy, m.again = true, false
	wanted := Wanted{Open: m.open, At: -1, All: m.o.All}
	if m.pace != following && m.open != "" {
		wanted.At = m.at
	}
	return func() tea.Msg {
		f, err := m.src.Read(m.ctx, wanted)
		return answered{wanted, f, err}
	}
}

// view returns listView, or the page of the run.
func (m *model) view() int {
	if m.open == "" && m.program() == nil {
		return listView
	}
	return m.page
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.brush.width, m.height = msg.Width, msg.Height
	case answered:
		return m, m.useAnswer(msg)
	case tick:
		return m, tea.Batch(nextTick(), m.advance())
	case tea.KeyPressMsg:
		if m.prompt.IsOpen() {
			return m, m.typeKey(msg)
		}
		return m, m.handleKey(tui.Key(msg.String()))
	}
	return m, nil
}

func (m *model) useAnswer(l answered) tea.Cmd {
	m.busy = false
	switch {
	case l.err != nil && errors.Is(l.err, context.Canceled):
		return tea.Quit
	case l.err != nil && m.frame == nil:
		m.failed = l.err
		return tea.Quit
	case l.err != nil:
		m.trouble = l.err
	case l.wanted.Open != m.open: // the view has changed since
	default:
		m.frame, m.trouble = l.frame, nil
		if m.open == "" {
			m.list = l.frame
		}
		m.keepCursor()
	}
	isPending := m.frame != nil && m.frame.Pending > 0 && m.trouble == nil
	if m.again || isPending {
		return m.readSource()
	}
	return nil
}

func (m *model) advance() tea.Cmd {
	switch m.pace {
	case following:
	case playing:
		d := m.detail()
		if d == nil {
			return nil
		}
		m.at += interval
		if m.at >= d.Last {
			m.at, m.pace = d.Last, still
		}
	case still:
		return nil
	}
	if m.busy { // a slow source is not read twice at a time
		return nil
	}
	return m.readSource()
}

// detail returns the open run, nil if it is not read yet.
func (m *model) detail() *Detail {
	if m.frame == nil || m.open == "" {
		return nil
	}
	return m.frame.Open
}

// program returns the program that broadcasts frames, nil if the source is a spool.
func (m *model) program() *Program {
	if m.frame == nil {
		return nil
	}
	return m.frame.Program
}

// titles returns the titles of all pages. If the program of a run has broadcast frames, its pages
// are there too.
func (m *model) titles() (out []string) {
	d := m.detail()
	if m.open != "" {
		for _, p := range pages {
			out = append(out, p.title)
		}
		if d != nil {
			out[pageJob] = d.noun()
		}
	}
	hadProgram := d != nil && d.Program != nil
	if m.program() != nil || hadProgram {
		for _, p := range programPages {
			out = append(out, p.title)
		}
	}
	return out
}

func (m *model) current() page {
	if p := m.program(); p != nil {
		return programPages[m.page].make(p, m.first, m.brush)
	}
	d := m.detail()
	switch {
	case m.open == "":
		return jobsPage(m.frame, m.brush)
	case d == nil:
		return page{}
	case m.page < len(pages):
		return d.page(m.page, m.brush)
	case d.Program == nil:
		return page{head: []string{"its program had broadcast nothing yet"}}
	}
	return programPages[m.page-len(pages)].make(d.Program, 0, m.brush)
}

func (m *model) order() order {
	if o, ok := m.orders[m.view()]; ok {
		return o
	}
	return order{column: -1}
}

// keepCursor moves the cursor to its row in new rows, if a key has chosen it.
func (m *model) keepCursor() {
	p := m.current()
	rows := p.sorted(m.filter, m.order())
	c := m.cursor[m.view()]
	for i := range rows {
		if rows[i].id == c.id && c.id != "" && c.moved {
			c.Row = i
			break
		}
	}
	m.cursor[m.view()] = c.within(rows)
}

// within keeps the cursor within the rows, and records its row.
func (c place) within(rows []row) place {
	c.Bound(len(rows))
	c.id = ""
	if c.Row < len(rows) {
		c.id = rows[c.Row].id
	}
	return c
}
