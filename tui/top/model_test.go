package top

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden screens again")

// screenOf is the screen of a model as text.
func screenOf(m *model) string {
	var out []string
	for _, l := range m.screen() {
		out = append(out, strings.TrimRight(l.text, " "))
	}
	return strings.Join(out, "\n") + "\n"
}

// golden compares a screen with testdata/NAME.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// start is a model of a source on a screen, after its first look.
func start(t *testing.T, src Source, o Options, w, h int) *model {
	t.Helper()
	m := newModel(context.Background(), src, o)
	feed(t, m, tea.WindowSizeMsg{Width: w, Height: h})
	answer(t, m, m.readSource())
	return m
}

// feed sends messages to the model, and the source's answers back to it.
func feed(t *testing.T, m *model, msgs ...tea.Msg) {
	t.Helper()
	for _, msg := range msgs {
		_, cmd := m.Update(msg)
		answer(t, m, cmd)
	}
}

func answer(t *testing.T, m *model, cmd tea.Cmd) {
	t.Helper()
	for n := 0; cmd != nil; n++ {
		msg := cmd()
		if _, ok := msg.(tea.QuitMsg); ok {
			return
		}
		_, cmd = m.Update(msg)
		if n > 10 {
			t.Fatalf("no end of messages: %T", msg)
		}
	}
}

// second is what a tick does, without the wait for the next one.
func second(t *testing.T, m *model) {
	t.Helper()
	answer(t, m, m.advance())
}

var named = map[string]rune{
	"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight,
	"home": tea.KeyHome, "end": tea.KeyEnd, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "tab": tea.KeyTab, "backspace": tea.KeyBackspace,
}

// press types keys: words are those that have names, else each character is one.
func press(t *testing.T, m *model, keys ...string) {
	t.Helper()
	for _, k := range keys {
		switch code, ok := named[k]; {
		case ok:
			feed(t, m, tea.KeyPressMsg{Code: code})
		case k == "shift+tab":
			feed(t, m, tea.KeyPressMsg{Code: tea.KeyTab, Mod: tea.ModShift})
		case k == "space":
			feed(t, m, tea.KeyPressMsg{Code: tea.KeySpace, Text: " "})
		default:
			for _, c := range k {
				feed(t, m, tea.KeyPressMsg{Code: c, Text: string(c)})
			}
		}
	}
}

var sizes = []struct {
	name string
	w, h int
}{{"80x24", 80, 24}, {"120x40", 120, 40}}

// Every page of a run that is over, and the list, at both sizes.
func TestGoldenScreens(t *testing.T) {
	dir := t.TempDir()
	path, _ := sampleFile(t, dir, 12, 121, true)
	other, _ := sampleFile(t, dir, 13, 1, true)
	_, live := sampleFile(t, dir, 14, 40, false)
	defer live.Close()
	for _, f := range []string{path, other} {
		if err := os.Chtimes(f, sampleNow, sampleNow); err != nil {
			t.Fatal(err)
		}
	}
	for _, size := range sizes {
		list := &Spooled{Dir: dir, Now: func() time.Time { return sampleNow }}
		m := start(t, list, Options{Name: "rt-spool top", Zone: time.UTC, At: -1}, size.w, size.h)
		m.frame.Where = "/var/spool/rt"
		golden(t, "list."+size.name+".txt", screenOf(m))
		press(t, m, "?")
		golden(t, "help."+size.name+".txt", screenOf(m))

		m = start(t, File(path), Options{Name: "rt-spool top", Zone: time.UTC, Open: path, At: -1}, size.w, size.h)
		for i, name := range []string{"job", "steps", "processes", "cores", "memory", "gpus", "io", "pressure", "energy"} {
			press(t, m, string(rune('1'+i)))
			golden(t, name+"."+size.name+".txt", screenOf(m))
		}
		m = start(t, File(other), Options{Name: "rt-spool top", Zone: time.UTC, Open: other, At: -1}, size.w, size.h)
		golden(t, "pending."+size.name+".txt", screenOf(m))
	}
}
