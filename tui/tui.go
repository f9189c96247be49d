// Package tui shows the metrics of FTDC files: as a list, plots, CSV, JSON or on a full screen. It also
// has what the full screens of rt-spool share. These are the program on the terminal, the keys and their
// help, the prompt and the cursor of a list.
package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// Run shows m on the whole terminal until the user quits.
func Run(ctx context.Context, m tea.Model, in io.Reader, out *os.File) error {
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out)).Run()
	switch {
	case err == nil, errors.Is(err, tea.ErrInterrupted):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("draw on the terminal: %w", err)
}

// Screen returns a view of the whole terminal.
func Screen(text string) tea.View {
	v := tea.NewView(text)
	v.AltScreen = true
	return v
}

// Width is how many columns of a terminal a text takes.
func Width(s string) int { return ansi.StringWidth(s) }

// Clip cuts a text after n columns.
func Clip(s string, n int) string { return ansi.Truncate(s, max(n, 0), "") }

// Keys of all screens.
var (
	Quit     = Bind("q", "quit", "q", "ctrl+c")
	Filter   = Bind("/", "filter", "/")
	up       = Bind("", "", "up", "k")
	down     = Bind("", "", "down", "j")
	pageUp   = Bind("", "", "pgup")
	pageDown = Bind("", "", "pgdown")
	first    = Bind("", "", "home", "g")
	last     = Bind("", "", "end", "G")
)

// Bind binds keys to a function of the screen. Help shows the label and the text.
func Bind(label, text string, keys ...string) key.Binding {
	return key.NewBinding(key.WithKeys(keys...), key.WithHelp(label, text))
}

// Key is a pressed key, as tea.KeyPressMsg.String names it.
type Key string

// String implements fmt.Stringer, for key.Matches.
func (k Key) String() string { return string(k) }

// Is reports whether the key is one of a binding's.
func (k Key) Is(b key.Binding) bool { return key.Matches(k, b) }

// Help is a line with the labels and texts of bindings.
func Help(bindings ...key.Binding) string {
	return help.Model{ShortSeparator: "  "}.ShortHelpView(bindings)
}

// Answer is what a key does to a prompt.
type Answer int

// The answers of Prompt.Type.
const (
	Typing    Answer = iota // the prompt stays open
	Accepted                // enter
	Cancelled               // esc
	Quitting                // ctrl+c
)

var answers = map[string]Answer{"enter": Accepted, "esc": Cancelled, "ctrl+c": Quitting}

// Prompt is a line of text that the user types. The zero value is closed.
type Prompt struct {
	label string
	input textinput.Model
	open  bool
}

// FilterLabel is the label of a prompt for a filter.
const FilterLabel = "filter (enter: keep, esc: drop)"

// Open shows the prompt with a text to edit.
func (p *Prompt) Open(label, text string) {
	p.label, p.open = label, true
	p.input = textinput.New()
	p.input.KeyMap.Paste.SetEnabled(false) // the terminal pastes
	p.input.SetValue(text)
	p.input.Focus()
}

// IsOpen reports whether keys go to the prompt.
func (p *Prompt) IsOpen() bool { return p.open }

// Text is what was typed.
func (p *Prompt) Text() string { return p.input.Value() }

// Type applies a key. All answers but Typing close the prompt.
func (p *Prompt) Type(k tea.KeyPressMsg) Answer {
	if answer, ok := answers[k.String()]; ok {
		p.open = false
		return answer
	}
	p.input, _ = p.input.Update(k) // its commands blink a cursor that is not shown
	return Typing
}

// Line shows the label, the text and the position in it.
func (p *Prompt) Line() string {
	text := []rune(p.input.Value())
	at := min(p.input.Position(), len(text))
	return p.label + ": " + string(text[:at]) + "_" + string(text[at:])
}

// Cursor is the position in a list of rows.
type Cursor struct {
	Row int
	Top int // first row on the screen
}

// Move applies a key to the cursor in a list of n rows with page rows on the screen. It reports
// whether the key moves cursors.
func (c *Cursor) Move(k Key, n, page int) bool {
	switch {
	case k.Is(up):
		c.Row--
	case k.Is(down):
		c.Row++
	case k.Is(pageUp):
		c.Row -= page
	case k.Is(pageDown):
		c.Row += page
	case k.Is(first):
		c.Row = 0
	case k.Is(last):
		c.Row = n
	default:
		return false
	}
	c.Bound(n)
	return true
}

// Bound keeps the cursor within n rows.
func (c *Cursor) Bound(n int) { c.Row = max(min(c.Row, n-1), 0) }

// Scroll returns which of n rows are on a screen of height rows: from Top on, so that
// the cursor is among them.
func (c *Cursor) Scroll(n, height int) (from, to int) {
	c.Top = max(min(c.Top, c.Row), c.Row-height+1, 0)
	c.Top = max(min(c.Top, n-height), 0)
	return c.Top, min(c.Top+height, n)
}
