package tui

import (
	"testing"

	tea "charm.land/bubbletea/v2"
)

func TestCursor(t *testing.T) {
	c := Cursor{}
	for _, step := range []struct {
		key       Key
		row       int
		from, to  int
		isNoMover bool
	}{
		{"down", 1, 0, 4, false}, {"pgdown", 5, 2, 6, false}, {"G", 9, 6, 10, false}, {"j", 9, 6, 10, false}, {"k", 8, 6, 10, false},
		{"pgup", 4, 4, 8, false}, {"x", 4, 4, 8, true}, {"home", 0, 0, 4, false}, {"up", 0, 0, 4, false},
	} {
		moved := c.Move(step.key, 10, 4)
		from, to := c.Scroll(10, 4)
		if moved == step.isNoMover || c.Row != step.row || from != step.from || to != step.to {
			t.Errorf("%s: row %d, rows %d to %d on the screen, moved: %t; want %+v", step.key, c.Row, from, to, moved, step)
		}
	}
	c.Move("down", 0, 4)
	if from, to := c.Scroll(0, 4); c.Row != 0 || from != 0 || to != 0 {
		t.Errorf("an empty list has the cursor at %+v, rows %d to %d", c, from, to)
	}
}

func TestPrompt(t *testing.T) {
	var p Prompt
	if p.IsOpen() || p.Text() != "" {
		t.Errorf("the zero value is open or has the text %q", p.Text())
	}
	p.Open("go to", "ab")
	for _, k := range []tea.KeyPressMsg{{Code: 'c', Text: "c"}, {Code: tea.KeyLeft}, {Code: tea.KeyBackspace}, {Code: tea.KeySpace, Text: " "}} {
		if a := p.Type(k); a != Typing || !p.IsOpen() {
			t.Fatalf("%s answers %d", k, a)
		}
	}
	if p.Text() != "a c" || p.Line() != "go to: a _c" {
		t.Errorf("text %q, line %q", p.Text(), p.Line())
	}
	for code, want := range map[rune]Answer{tea.KeyEnter: Accepted, tea.KeyEscape: Cancelled} {
		p.Open("", "x")
		if a := p.Type(tea.KeyPressMsg{Code: code}); a != want || p.IsOpen() || p.Text() != "x" {
			t.Errorf("answer %d, open: %t, text %q", a, p.IsOpen(), p.Text())
		}
	}
	p.Open("", "")
	if a := p.Type(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}); a != Quitting {
		t.Errorf("ctrl+c answers %d", a)
	}
}

func TestHelp(t *testing.T) {
	if got := Help(Bind("a", "all", "a"), Filter, Quit); got != "a all  / filter  q quit" {
		t.Errorf("%q", got)
	}
}
