package tui

import (
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
)

// Answer is what a key does to a prompt.
type Answer int

// The answers of Prompt.Type.
const (
	Typing    Answer = iota // the prompt stays open
	Accepted                // enter
	Cancelled               // esc
	Quitting                // ctrl+c
)

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
	switch k.String() {
	case "ctrl+c":
		p.open = false
		return Quitting
	case "esc":
		p.open = false
		return Cancelled
	case "enter":
		p.open = false
		return Accepted
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
