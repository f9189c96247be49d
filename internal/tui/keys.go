package tui

import (
	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"
)

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
