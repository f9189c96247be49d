package top

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/tui"
)

// expect fails where no line of the screen matches an expression; one with a leading
// "no " must match none.
func expect(t *testing.T, m *model, want ...string) {
	t.Helper()
	screen := screenOf(m)
	for _, re := range want {
		re, not := strings.CutPrefix(re, "no ")
		if regexp.MustCompile(`(?m)`+re).MatchString(screen) == not {
			t.Errorf("want %s (not: %v) in\n%s", re, not, screen)
		}
	}
}

// What each key does to a run that is over.
func TestKeysOfARun(t *testing.T) {
	path, _ := sampleFile(t, t.TempDir(), 12, 121, true)
	for _, c := range []struct {
		keys []string
		want []string
	}{
		{nil, []string{`^Job 12  md  anna  n1  failed \(7:0\)`, `\[1 job\]`, `0:02:00 of 0:02:00  12:02:00  reading 121 of 121  end$`, `^Memory +13.0G of 16.0G +81.2%`}},
		{[]string{"tab"}, []string{`\[2 steps\]`, `^> 0 +- ended`}},
		{[]string{"tab", "tab", "shift+tab"}, []string{`\[2 steps\]`}},
		{[]string{"shift+tab"}, []string{`\[9 energy\]`}},
		{[]string{"5"}, []string{`\[5 memory\]`}},
		{[]string{"2", "down"}, []string{`^> 0 +0 ended`}},
		{[]string{"2", "jj", "up"}, []string{`^> 0 +0 ended`}},
		{[]string{"2", "jj", "k"}, []string{`^> 0 +0 ended`}},
		{[]string{"2", "G"}, []string{`^> 1 +- running`}},
		{[]string{"2", "pgdown"}, []string{`^> 1 +- running`}},
		{[]string{"2", "G", "pgup"}, []string{`^> 0 +- ended`}},
		{[]string{"2", "G", "g"}, []string{`^> 0 +- ended`}},
		{[]string{"2", "G", "enter"}, []string{`\[3 processes\]`, `^> +4711 gmx`, `^filter "1"`}},
		{[]string{"2", "G", "enter", "esc"}, []string{`\[3 processes\]`, `no ^filter "`}},
		{[]string{"2", "esc"}, []string{`\[1 job\]`}},
		{[]string{"esc", "backspace"}, []string{`\[1 job\]`, `^Job 12`}}, // there is no list
		{[]string{"3", "/", "PYTH"}, []string{`python3`, `no gmx`, `^filter \(enter: keep, esc: drop\): PYTH_`}},
		{[]string{"3", "/", "pyx", "backspace", "enter"}, []string{`python3`, `no gmx`, `^filter "py"`}},
		{[]string{"3", "/", "py", "esc"}, []string{`python3`, `gmx`, `no ^filter "`}},
		{[]string{"3", "/", "zzz"}, []string{`^none of 2 has "zzz"`}},
		{[]string{"3", "s", "s"}, []string{`PID \*COMMAND`, `^> +4711 gmx`}},
		{[]string{"3", "s", "r"}, []string{`\*PID COMMAND`, `(?s)4711 gmx.*4712 python3`}},
		{[]string{"3", "s"}, []string{`(?s)4712 python3.*4711 gmx`}},
		{[]string{"3", "S"}, []string{`\*WRIT/`}},
		{[]string{"3", "r"}, []string{`(?s)4712 python3.*4711 gmx`}},
		{[]string{"left"}, []string{`0:01:59 of 0:02:00  12:01:59  reading 120 of 121  PAUSED`}},
		{[]string{"left", "left", "right"}, []string{`0:01:59 of`}},
		{[]string{"<"}, []string{`0:01:00 of 0:02:00  12:01:00  reading 61 of 121`}},
		{[]string{"<", ","}, []string{`0:00:00 of`, `its cgroup has not appeared yet`}},
		{[]string{"home"}, []string{`0:00:00 of 0:02:00  12:00:00  reading 1 of 121  PAUSED`, `^CPU +n/a of 4 cores`}},
		{[]string{"home", "left"}, []string{`0:00:00 of 0:02:00`}},
		{[]string{"home", ">"}, []string{`0:01:00 of`}},
		{[]string{"home", ".", ".", "right"}, []string{`0:02:00 of`}},
		{[]string{"home", "end"}, []string{`0:02:00 of 0:02:00  12:02:00  reading 121 of 121  end$`}},
		{[]string{"t", "60", "enter", "2"}, []string{`0:01:00 of`, `^> batch`, `0 +0 ended +1.90`}},
		{[]string{"t", "1m40s", "enter", "7"}, []string{`0:01:40 of`, `job +block devices +n/a +4.0M +n/a`}}, // reading 101 lacks it
		{[]string{"t", "12:00:30", "enter", "2"}, []string{`0:00:30 of`, `0 +1 running +1.00`}},
		{[]string{"t", "3m", "enter"}, []string{`^"3m" is not within the run: its readings are of 0:02:00 from 2026-03-01 12:00:00`, `0:02:00 of`}},
		{[]string{"t", "x", "enter"}, []string{`^"x" is no moment`}},
		{[]string{"t", "60", "esc"}, []string{`0:02:00 of`, `no go to`}},
		{[]string{"?"}, []string{`^rt-spool top: keys`, `^any key: back`}},
		{[]string{"?", "x"}, []string{`^Job 12`}},
		{[]string{"h", "h"}, []string{`^Job 12`}},
		{[]string{"z", "0", "ü"}, []string{`^Job 12`}}, // none of them means anything
	} {
		t.Run(strings.Join(c.keys, " "), func(t *testing.T) {
			m := start(t, File(path), Options{Name: "rt-spool top", Zone: time.UTC, Open: path, At: -1}, 80, 24)
			press(t, m, c.keys...)
			expect(t, m, c.want...)
		})
	}
}

// A run that is over is played a second each second, to its end.
func TestPlay(t *testing.T) {
	path, _ := sampleFile(t, t.TempDir(), 12, 121, true)
	m := start(t, File(path), Options{Name: "rt-spool top", Zone: time.UTC, Open: path, At: 117 * time.Second}, 80, 24)
	expect(t, m, `0:01:57 of 0:02:00  12:01:57  reading 118 of 121  PAUSED`)
	second(t, m)
	expect(t, m, `0:01:57 of`)
	press(t, m, "space")
	second(t, m)
	expect(t, m, `0:01:58 of 0:02:00  12:01:58  reading 119 of 121  playing`)
	press(t, m, "space")
	second(t, m)
	expect(t, m, `0:01:58 of .* PAUSED`)
	press(t, m, "space")
	for range 5 {
		second(t, m)
	}
	expect(t, m, `0:02:00 of .* reading 121 of 121  PAUSED`)
	press(t, m, "space") // once more, from the beginning
	second(t, m)
	expect(t, m, `0:00:01 of .* reading 2 of 121  playing`)
}

// A job that runs grows on the screen, stays while it is paused, ends meanwhile, and
// stays on the screen when drain has removed it.
func TestLive(t *testing.T) {
	dir := t.TempDir()
	path, w := sampleFile(t, dir, 12, 30, false)
	m := start(t, File(path), Options{Name: "rt-spool top", Zone: time.UTC, Open: path, At: -1}, 80, 24)
	expect(t, m, `^Job 12  md  anna  n1  running`, `reading 30 of 30  newest`)
	put(t, w, 30, 40)
	second(t, m)
	expect(t, m, `reading 40 of 40  newest`)
	press(t, m, "space")
	put(t, w, 40, 50)
	second(t, m)
	expect(t, m, `reading 40 of 40  PAUSED`)
	press(t, m, "left")
	expect(t, m, `0:00:38 of 0:00:49  12:00:38  reading 39 of 50  PAUSED`)
	press(t, m, "space")
	expect(t, m, `reading 50 of 50  newest`)
	put(t, w, 50, 61)
	endRun(t, w, sampleRun(12), 61)
	second(t, m)
	expect(t, m, `^Job 12  md  anna  n1  failed \(7:0\)  0:00:59`, `reading 61 of 61  end`)
	for _, f := range must(filepath.Glob(filepath.Join(dir, "*"))) {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	second(t, m)
	expect(t, m, `^Job 12`, `reading 61 of 61`)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Neither the keys below nor the help are cut on 80 columns: how to quit is last.
func TestKeysFit(t *testing.T) {
	dir := t.TempDir()
	_, first := sampleFile(t, dir, 12, 30, false)
	defer first.Close()
	m := start(t, &Spooled{Dir: dir, Now: time.Now}, Options{Name: "rt-spool top", Zone: time.UTC}, 80, 24)
	for _, keys := range [][]string{nil, {"enter"}, {"3", "/", "a", "enter"}} {
		press(t, m, keys...)
		if last := m.lastLine(); tui.Width(last) > 80 || !strings.HasSuffix(last, "q quit") {
			t.Errorf("after %q: %d columns: %s", keys, tui.Width(last), last)
		}
	}
	for _, l := range m.helpLines() {
		if tui.Width(l.text) > 80 {
			t.Errorf("%d columns: %s", tui.Width(l.text), l.text)
		}
	}
}

// The list: jobs come, end and go; one is opened and left; older ones are asked for.
func TestList(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir) // a long name would be all of the heading
	_, first := sampleFile(t, dir, 12, 30, false)
	now := time.Now()
	src := &Spooled{Dir: ".", Now: func() time.Time { return now }}
	m := start(t, src, Options{Name: "rt-spool top", Zone: time.UTC}, 120, 24)
	expect(t, m, `1 runs, 1 running`, `^> 12 +anna +md +n1 +running`)
	path, _ := sampleFile(t, dir, 13, 20, true)
	second(t, m)
	expect(t, m, `2 runs, 1 running`, `^> 12 `, `^  13 .* failed`)
	press(t, m, "down", "enter")
	expect(t, m, `^Job 13 .* failed`, `^esc back`)
	press(t, m, "esc")
	expect(t, m, `^> 13 `)
	endRun(t, first, sampleRun(12), 30)
	second(t, m)
	expect(t, m, `2 runs, 0 running`, `^  12 .* failed`, `^> 13 `)
	press(t, m, "s")
	expect(t, m, `\*JOB`)
	press(t, m, "r")
	expect(t, m, `(?s)13 .*12 `)
	press(t, m, "home")
	expect(t, m, `^> 13`)
	press(t, m, "end")
	expect(t, m, `^> 12`)

	old := now.Add(-25 * time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "stray.db"), []byte("this is no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	second(t, m)
	expect(t, m, `1 runs, 0 running, 1 older, 1 unreadable`, `^cannot be read: .*stray.db: not a spool file`, `no ^. 13 `)
	press(t, m, "a")
	expect(t, m, `2 runs`, `^. 13 `)
	press(t, m, "space")
	expect(t, m, `PAUSED`)
	sampleFile(t, dir, 14, 2, true)
	second(t, m)
	expect(t, m, `2 runs`)
	press(t, m, "space")
	expect(t, m, `3 runs`, `no PAUSED`)
}

// No size of a terminal is too small, and no line longer than it.
func TestAnySize(t *testing.T) {
	dir := t.TempDir()
	path, _ := sampleFile(t, dir, 12, 121, true)
	for _, size := range [][2]int{{1, 1}, {2, 3}, {20, 5}, {79, 8}, {300, 100}} {
		for view := range len(pages) + 2 {
			o, src := Options{Name: "rt-spool top", Zone: time.UTC, Open: path, At: -1}, File(path)
			if view >= len(pages) {
				o.Open, src = "", &Spooled{Dir: dir}
			}
			m := start(t, src, o, size[0], size[1])
			if m.page = view % len(pages); view == len(pages)+1 {
				m.help = true
			}
			press(t, m, "down", "up", "s", "pgdown")
			lines := m.screen()
			if len(lines) != size[1] {
				t.Errorf("view %d, %v: %d lines", view, size, len(lines))
			}
			for _, l := range lines {
				if n := tui.Width(l.text); n > size[0] {
					t.Errorf("view %d, %v: a line of %d columns: %q", view, size, n, l.text)
				}
			}
		}
	}
}

// What a job is called reaches the terminal as text alone, and as wide as it is.
func TestForeignText(t *testing.T) {
	run := sampleRun(7)
	run.Meta.JobName, run.User = "\x1b[31mred\r\n", "日本語"
	f := &Frame{Time: sampleNow, Jobs: []Watched{{Run: &run, Path: "x", Live: true}}}
	m := newModel(t.Context(), nil, Options{Name: "rt-spool top", Zone: time.UTC})
	m.frame, m.brush.width, m.height = f, 120, 24
	s := screenOf(m)
	if strings.ContainsAny(s, "\x1b\r") || !strings.Contains(s, "?[31mred??") {
		t.Errorf("%q", s)
	}
	lines := strings.Split(s, "\n")
	head, _, _ := strings.Cut(lines[1], "STATE")
	body, _, ok := strings.Cut(lines[2], "running")
	if !ok || tui.Width(head) != tui.Width(body) {
		t.Errorf("the columns do not stand below their titles:\n%s\n%s", lines[1], lines[2])
	}
	if v := m.View(); !v.AltScreen || !strings.Contains(v.Content, "\x1b[7m") {
		t.Error("the view does not take the screen")
	}
}

// With colours or without, the text is the same: they add nothing.
func TestAlarmIsText(t *testing.T) {
	run := sampleRun(7)
	j := Watched{Run: &run, Path: "x", Live: true}
	j.Memory.Set(95)
	j.Limit.Set(100)
	other := j
	other.Path, other.Memory = "y", rt64(10)
	m := newModel(t.Context(), nil, Options{Name: "rt-spool top", Zone: time.UTC})
	m.frame, m.brush.width, m.height = &Frame{Jobs: []Watched{other, j}}, 80, 24
	expect(t, m, `^! 7 `, `^> 7 `)
}

func TestParseMoment(t *testing.T) {
	first := time.Date(2026, 3, 1, 23, 59, 30, 500e6, time.UTC)
	for text, want := range map[string]time.Duration{
		"90": 90 * time.Second, " 1m30s ": 90 * time.Second, "0": 0, "23:59:30": 0, "00:00:30": 59500 * time.Millisecond, "00:01": 89500 * time.Millisecond,
		"2026-03-02T00:00:30Z": 59500 * time.Millisecond, "2026-03-02 00:00:30": 59500 * time.Millisecond, "-10m": 50 * time.Minute,
	} {
		got, err := parseMoment(text, first, first.Add(time.Hour))
		if err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-", "12:60", "99999999999", "soon"} {
		if at, err := parseMoment(text, first, first.Add(time.Hour)); err == nil {
			t.Errorf("%q: %s", text, at)
		}
	}
}

func TestSizes(t *testing.T) {
	var got []string
	for _, v := range []float64{0, 999, 1000, 1 << 20, 99.94 * (1 << 30), 100 << 30, 999.4 * (1 << 40), 1 << 63} {
		got = append(got, size(v))
	}
	if diff := cmp.Diff([]string{"0", "999", "1.0K", "1.0M", "99.9G", "100G", "999T", "8.0E"}, got); diff != "" {
		t.Error(diff)
	}
}

// A key that comes while the source is at work is not lost: it is asked again.
func TestKeysWhileReading(t *testing.T) {
	path, _ := sampleFile(t, t.TempDir(), 12, 121, true)
	m := start(t, File(path), Options{Name: "rt-spool top", Zone: time.UTC, Open: path, At: -1}, 80, 24)
	_, cmd := m.Update(tea.KeyPressMsg{Code: tea.KeyLeft})
	for range 3 {
		if _, second := m.Update(tea.KeyPressMsg{Code: tea.KeyLeft}); second != nil {
			t.Error("a second look while one is under way")
		}
	}
	answer(t, m, cmd)
	expect(t, m, `0:01:56 of`)
}

// A directory of very many runs is shown while it is read, the tracked ones first.
func TestPending(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir) // a long name would be all of the heading
	sampleFile(t, dir, 1, 2, true)
	sampleFile(t, dir, 2, 2, false)
	src := &Spooled{Dir: "."}
	m := newModel(t.Context(), src, Options{Name: "rt-spool top", Zone: time.UTC, At: -1})
	m.brush.width, m.height = 80, 24
	f, err := src.Read(t.Context(), Wanted{Wait: true})
	if err != nil || f.Pending != 0 || len(f.Jobs) != 2 || !f.Jobs[0].Live {
		t.Fatalf("%+v, %v", f, err)
	}
	if src.paths[0] != f.Jobs[0].Path {
		t.Error("the run that is tracked is not read first")
	}
	if cmd := m.useAnswer(answered{frame: &Frame{Pending: 1, Note: "reading: 1 more runs"}}); cmd == nil {
		t.Fatal("what is still to be read is not asked for")
	} else {
		expect(t, m, `^reading: 1 more runs`)
		answer(t, m, cmd)
	}
	expect(t, m, `2 runs, 1 running`)
}

// The cursor stays at the first row while rows come above it, until a key has chosen a row.
func TestCursorStaysAtTheTop(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir) // a long name would be all of the heading
	sampleFile(t, dir, 1, 2, true)
	sampleFile(t, dir, 2, 2, true)
	all, err := (&Spooled{Dir: "."}).Read(t.Context(), Wanted{Wait: true})
	if err != nil || len(all.Jobs) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	second := *all
	second.Jobs = slices.DeleteFunc(slices.Clone(all.Jobs), func(j Watched) bool { return j.JobID == rt.Some(uint64(1)) })
	for _, key := range []string{"", "down", "enter"} {
		m := newModel(t.Context(), &Spooled{Dir: "."}, Options{Name: "rt-spool top", Zone: time.UTC, At: -1})
		m.brush.width, m.height = 80, 24
		m.useAnswer(answered{frame: &second})
		expect(t, m, `^> 2 `)
		want := `^> 2 `
		switch key {
		case "":
			want = `^> 1 `
		case "enter":
			press(t, m, "enter", "esc")
			m.useAnswer(answered{frame: &second})
		default:
			press(t, m, key)
		}
		m.useAnswer(answered{frame: all})
		expect(t, m, want)
	}
}
