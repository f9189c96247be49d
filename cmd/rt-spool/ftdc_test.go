package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/resource-tracker/rt/format/ftdc"
)

// ftdcSample is ten minutes of four metrics, one of which comes halfway.
func ftdcSample(t interface{ Fatal(...any) }) []byte {
	var file bytes.Buffer
	enc := ftdc.NewEncoder(&file)
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	for i := range int64(600) {
		d := ftdc.FlatDatum{Time: start + i*1e9, Readings: []ftdc.Reading{
			{MetricName: "motor.powerPct", Value: float32(i%100) / 100}, {MetricName: "motor.pos", Value: float32(5000 + 2*i)},
			{MetricName: "motor.pos_rest", Value: 0.25},
		}}
		if i >= 300 {
			d.Readings = append(d.Readings, ftdc.Reading{MetricName: "gps.\x1b[31mred", Value: float32(math.Inf(1))}, ftdc.Reading{MetricName: "gps.sats", Value: float32(i % 7)})
		}
		if err := enc.EncodeDatum(&d); err != nil {
			t.Fatal(err)
		}
	}
	return file.Bytes()
}

// cmdSample writes ftdcSample to a file of a script.
func cmdSample(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), ftdcSample(fatal{ts}), 0o644))
}

type fatal struct{ ts *testscript.TestScript }

func (f fatal) Fatal(args ...any) { f.ts.Fatalf("%s", fmt.Sprint(args...)) }

func sampleView(t *testing.T) ftdcView {
	return ftdcView{files: []ftdcFile{{name: "a.ftdc", text: ftdcSample(t)}}, from: math.MinInt64, to: math.MaxInt64}
}

// feed sends messages to the model, and what it asks for back to it.
func feed(t *testing.T, m *ftdcModel, msgs ...tea.Msg) {
	t.Helper()
	for _, msg := range msgs {
		for n := 0; msg != nil; n++ {
			_, cmd := m.Update(msg)
			if msg = nil; cmd != nil {
				msg = cmd()
			}
			if n > 10 {
				t.Fatalf("no end of messages: %T", msg)
			}
		}
	}
}

func keys(text string) (msgs []tea.Msg) {
	for _, c := range text {
		switch c {
		case ' ':
			msgs = append(msgs, tea.KeyPressMsg{Code: tea.KeySpace, Text: " "})
		case '\n':
			msgs = append(msgs, tea.KeyPressMsg{Code: tea.KeyEnter})
		case '\x1b':
			msgs = append(msgs, tea.KeyPressMsg{Code: tea.KeyEscape})
		default:
			msgs = append(msgs, tea.KeyPressMsg{Code: c, Text: string(c)})
		}
	}
	return msgs
}

// What each key does, on a screen of 100 x 40.
func TestFTDCScreen(t *testing.T) {
	t.Setenv("TZ", "UTC")
	for _, c := range []struct {
		name, keys string
		want       []string // regular expressions of lines
		not        string
	}{
		{"start", "", []string{`^a.ftdc: 600 readings, 12:00:00 to 12:09:59, values; 4 of 4 metrics`, `^>  +0 +0.495 +0.99 +0.99  motor.powerPct$`, `^   .*  motor.pos$`, `^motor.powerPct$`, `^ +0.7[0-9]+ [┤┼]`}, `^motor.pos$`},
		{"down", "j", []string{`^> .*  motor.pos$`, `^motor.pos$`, `^ +5000.2 +5599.2 +6198.2 +6198.2  motor.pos$|5000.2 .*motor.pos$`}, `^motor.powerPct$`},
		{"no commands to the terminal", "", []string{`gps.�\[31mred$`}, "\x1b"},
		{"mark two", " jj ", []string{`^ \* .*motor.powerPct`, `^motor.powerPct$`, `^gps.sats$`}, `^motor.pos$`},
		{"filter", "/SATS\n", []string{`1 of 4 metrics match SATS`, `^> .*gps.sats$`, `^gps.sats$`}, `motor`},
		{"a filter that is no expression", "/(", []string{`0 of 4 metrics match \(`, `^filter .*: \(_`}, `motor`},
		{"drop the filter", "/x\x1b", []string{`4 of 4 metrics$`}, `^filter`},
		{"rate", "jr", []string{`growth per second`, `^>  +2 +2 +2 +2  motor.pos$`}, `6198`},
		{"zoom", "+", []string{`300 readings, 12:02:30 to 12:07:29`}, ``},
		{"zoom and pan", "++h", []string{`12:02:29 to 12:04:59|12:02:\d\d to 12:0[45]:\d\d`}, ``},
		{"zoom out", "+-", []string{`600 readings, 12:00:00 to 12:09:59`}, ``},
		{"everything", "+++l0", []string{`600 readings, 12:00:00 to 12:09:59`}, ``},
		{"end", "G", []string{`^> .*gps.sats$`}, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &ftdcModel{view: sampleView(t), marked: map[string]bool{}}
			feed(t, m, m.Init()(), tea.WindowSizeMsg{Width: 100, Height: 40})
			feed(t, m, keys(c.keys)...)
			screen := m.screen()
			lines := strings.Split(screen, "\n")
			if len(lines) != 40 {
				t.Errorf("%d lines", len(lines))
			}
			for _, re := range c.want {
				if !regexp.MustCompile(`(?m)` + re).MatchString(screen) {
					t.Errorf("no line matches %s", re)
				}
			}
			if c.not != "" && regexp.MustCompile(`(?m)`+c.not).MatchString(screen) {
				t.Errorf("a line matches %s", c.not)
			}
			if t.Failed() {
				t.Log("\n" + screen)
			}
		})
	}
}

// No size of a terminal is too small, and no line longer than it.
func TestFTDCScreenOfAnySize(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {2, 3}, {20, 5}, {80, 8}, {79, 24}, {300, 100}} {
		m := &ftdcModel{view: sampleView(t), marked: map[string]bool{}}
		feed(t, m, m.Init()(), tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		feed(t, m, keys(" j j j ")...)
		lines := strings.Split(m.screen(), "\n")
		if len(lines) != size[1] {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, l := range lines {
			if n := len([]rune(l)); n > size[0] {
				t.Errorf("%v: a line of %d characters", size, n)
			}
		}
	}
}

// A damaged file is shown as far as it goes, and said to be one.
func TestFTDCScreenOfDamage(t *testing.T) {
	text := ftdcSample(t)
	m := &ftdcModel{view: sampleView(t), marked: map[string]bool{}}
	m.view.files[0].text = text[:len(text)-3]
	feed(t, m, m.Init()(), tea.WindowSizeMsg{Width: 200, Height: 20})
	if s := m.screen(); !strings.Contains(s, "599 readings") || !strings.Contains(s, "damaged: a.ftdc: ftdc: the document at byte") {
		t.Error(s)
	}
}

// console collects what a program prints on a terminal.
type console struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (c *console) read(f *os.File) {
	buf := make([]byte, 4096)
	for {
		n, err := f.Read(buf)
		c.mu.Lock()
		c.text.Write(buf[:n])
		c.mu.Unlock()
		select {
		case c.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// until waits for a text after the given place, and returns its end.
func (c *console) until(t *testing.T, from int, want string) int {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		c.mu.Lock()
		text := c.text.String()
		c.mu.Unlock()
		if i := strings.Index(text[from:], want); i >= 0 {
			return from + i + len(want)
		}
		select {
		case <-c.more:
		case <-late:
			t.Fatalf("%q did not come; the terminal got %q", want, text[from:])
		}
	}
}

// The program on a real terminal: it takes the screen, draws, follows its size and
// keys, and gives the screen back.
func TestFTDCInteractive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.ftdc")
	if err := os.WriteFile(path, ftdcSample(t), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program(t), "--config", "/dev/null", "ftdc", "-i", path)
	cmd.Args[0] = "rt-spool"
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "TZ=UTC")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 100, Rows: 30})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	c := &console{more: make(chan struct{}, 1)}
	go c.read(tty)
	send := func(keys string) {
		if _, err := tty.WriteString(keys); err != nil {
			t.Fatal(err)
		}
	}
	at := c.until(t, 0, "\x1b[?1049h") // the alternate screen
	at = c.until(t, at, "motor.powerPct")
	at = c.until(t, at, "gps.sats")
	at = c.until(t, at, "quit")
	send("/")
	at = c.until(t, at, "filter (enter")
	send("sats\r")
	at = c.until(t, at, "gps.sats") // the title of the only plot that is left
	if err := pty.Setsize(tty, &pty.Winsize{Cols: 120, Rows: 40}); err != nil {
		t.Fatal(err)
	}
	at = c.until(t, at, "match sats") // all is drawn anew
	send("q")
	c.until(t, at, "\x1b[?1049l")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// What --from and --to take.
func TestMomentOf(t *testing.T) {
	start := time.Date(2026, 3, 1, 20, 37, 37, 5e8, time.Local)
	long := ftdcSummary{first: start.UnixNano(), last: start.Add(12 * time.Hour).UnixNano()}
	short := ftdcSummary{first: start.UnixNano(), last: start.Add(time.Hour).UnixNano()}
	for _, c := range []struct {
		text string
		of   *ftdcSummary
		want string
	}{
		{"90s", &short, "2026-03-01T20:39:07.5"}, {"-30m", &short, "2026-03-01T21:07:37.5"}, {"20:37:37", &short, "2026-03-01T20:37:37"},
		{"20:37", &short, "2026-03-01T20:37:00"}, {"21:00", &short, "2026-03-01T21:00:00"}, {"01:30", &long, "2026-03-02T01:30:00"},
		{"2026-03-02 08:00", &long, "2026-03-02T08:00:00"}, {"2026-03-02", &long, "2026-03-02T00:00:00"}, {"noon", &long, ""}, {"25:00", &long, ""},
	} {
		at, ok := momentOf(c.text, c.of)
		if got := time.Unix(0, at).Format("2006-01-02T15:04:05.9"); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%q is %s (%t), want %q", c.text, got, ok, c.want)
		}
	}
}
