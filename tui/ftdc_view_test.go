package tui

import (
	"bytes"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/resource-tracker/rt/format/ftdc"
)

// ftdcSample is ten minutes of four metrics; one metric starts halfway.
func ftdcSample(t *testing.T) []byte {
	var file bytes.Buffer
	enc := ftdc.NewEncoder(&file)
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	for i := range int64(600) {
		d := ftdc.FlatDatum{Time: start + i*1e9, Readings: []ftdc.Reading{
			{MetricName: "motor.powerPct", Value: float32(i%100) / 100}, {MetricName: "motor.pos", Value: float32(5000+2*i) + 0.25},
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

func sampleView(t *testing.T) *FTDCView {
	return &FTDCView{files: []file{{name: "a.ftdc", text: ftdcSample(t)}}, from: math.MinInt64, to: math.MaxInt64}
}

// feed sends messages to the model, and the results of its commands.
func feed(t *testing.T, m *model, msgs ...tea.Msg) {
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
		{"no commands to the terminal", "", []string{`gps.\?\[31mred$`}, "\x1b"},
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
			m := newModel(sampleView(t))
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
		m := newModel(sampleView(t))
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

// A damaged file is shown up to the damage, with a message.
func TestFTDCScreenOfDamage(t *testing.T) {
	text := ftdcSample(t)
	m := newModel(sampleView(t))
	m.view.files[0].text = text[:len(text)-3]
	feed(t, m, m.Init()(), tea.WindowSizeMsg{Width: 200, Height: 20})
	if s := m.screen(); !strings.Contains(s, "599 readings") || !strings.Contains(s, "damaged: a.ftdc: ftdc: the document at byte") {
		t.Error(s)
	}
}
