package report

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

func TestShortForms(t *testing.T) {
	small, large := ran(24, "n1", 0.05, 700), ran(24, "n2", 0.5, 500)
	for _, s := range []*Summary{small, large} {
		s.Run.NumNodes, s.Run.NodeList = u(2), "n[1-2]"
	}
	j := only(t, small, large)
	j.Advise(nil)
	missing := only(t, small)
	missing.Advise(nil)
	evil := ran(7, "n1", 1, 700)
	evil.Run.Meta.JobName = "<b>|`a`\x1b[2J\n# x"
	evil.Run.Outcome, evil.Run.End = "failed", start.Add(time.Hour)
	hostile := only(t, evil)
	hostile.Advise(nil)
	var b strings.Builder
	for _, j := range []*JobSummary{j, missing, hostile} {
		if err := WriteOneLine(&b, j, TextOptions{Zone: time.UTC}); err != nil {
			t.Fatal(err)
		}
		if err := WriteMarkdown(&b, j, TextOptions{Zone: time.UTC}); err != nil {
			t.Fatal(err)
		}
		b.WriteString("\n")
	}
	golden(t, "shortforms.md", b.String())
	if strings.Contains(b.String(), "\x1b") {
		t.Errorf("a name reaches the terminal:\n%s", b.String())
	}
	if err := WriteOneLine(failing{}, j, TextOptions{Zone: time.UTC}); err == nil {
		t.Error("no error")
	}
	if err := WriteMarkdown(failing{}, j, TextOptions{Zone: time.UTC}); err == nil {
		t.Error("no error")
	}
}

// An array whose tasks have no ids, as an import makes it.
func TestArrayWithoutTaskIDs(t *testing.T) {
	var line, text strings.Builder
	a := &Array{Job: "12", Names: Names{Name: "md"}}
	if err := errors.Join(writeArrayOneLine(&line, a), writeArrayMarkdown(&text, a)); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(line.String(), "Array 12 md: ") || strings.Contains(text.String(), "task ids") {
		t.Errorf("%s\n%s", line.String(), text.String())
	}
}

// A running job has the age of its last reading, and none if the clock is behind.
func TestAgeOfTheLastReading(t *testing.T) {
	s := ran(7, "n1", 1, 700)
	s.Run.Ending = rt.Ending{State: rt.StateRunning}
	s.Record.Last = start.Add(time.Hour)
	j := only(t, s)
	for old, want := range map[time.Duration]string{4 * time.Second: "4.00 s ago", 90 * time.Minute: "01:30:00 ago", -time.Second: "", 1 << 62: ""} {
		o := TextOptions{Zone: time.UTC, Now: s.Record.Last.Add(old)}
		if old == 1<<62 {
			o.Now = time.Time{}
		}
		var line, text strings.Builder
		if err := errors.Join(WriteOneLine(&line, j, o), WriteText(&text, j, o)); err != nil {
			t.Fatal(err)
		}
		isShown := strings.Contains(line.String(), "running (last reading "+want+")") && strings.Contains(text.String(), " at the last reading, ") && strings.Contains(text.String(), " ("+want+")")
		isSilent := !strings.Contains(line.String(), "last reading") && !strings.Contains(text.String(), " ago")
		if isShown != (want != "") || isSilent != (want == "") {
			t.Errorf("%s: %s%s", old, line.String(), text.String())
		}
	}
}

// The short forms of an array cover all its tasks.
func TestShortFormsOfAnArray(t *testing.T) {
	list := arrayOf(20)
	for _, s := range list {
		s.Run.Meta.JobName = "a|b"
	}
	a := RollUp("1000", list)
	if len(a.Tasks) != 20 || a.TaskIDs != "0-19" {
		t.Fatalf("%d tasks, %s", len(a.Tasks), a.TaskIDs)
	}
	var b strings.Builder
	nothing := RollUp("1000", arrayOf(12)[12:]) // task 11, which has no end in its record
	for _, a := range []*Array{a, nothing} {
		if err := errors.Join(WriteArray(&b, a, "oneline", TextOptions{Zone: time.UTC}), WriteArray(&b, a, "markdown", TextOptions{Zone: time.UTC})); err != nil {
			t.Fatal(err)
		}
		b.WriteString("\n")
	}
	golden(t, "shortforms-array.md", b.String())
	if WriteArray(failing{}, a, "oneline", TextOptions{Zone: time.UTC}) == nil || WriteArray(failing{}, a, "markdown", TextOptions{Zone: time.UTC}) == nil {
		t.Error("no error")
	}
	if ids := taskIDs(append(arrayOf(3)[1:], arrayOf(9)[8:]...)); ids != "1-2,7-8" {
		t.Errorf("ids %q", ids)
	}
}

// A job that still runs says why processes of it have died. One that has ended has the advice instead.
func TestKilledSoFar(t *testing.T) {
	s := ran(17, "n1", 4, 700)
	s.Run.Ending = rt.Ending{State: rt.StateRunning}
	s.Memory.LimitBytes, s.Memory.OOMKills = u(4<<30), u(1)
	text := func() string {
		var b strings.Builder
		if err := WriteOneLine(&b, only(t, s), TextOptions{}); err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(b.String(), "; ")
		return after
	}
	if got, want := text(), "killed for memory at the limit of 4.00 GiB: --mem=8G; rt-job 17 shows more\n"; got != want {
		t.Errorf("%q", got)
	}
	s.OOM = []OOMKill{{Step: "0", Task: u(3), GrowthBytesPerSec: rt.Some(12.0 * (1 << 20))}}
	if got, want := text(), "killed for memory at the limit of 4.00 GiB in step 0, task 3 (memory grew by 12.0 MiB a second): --mem=8G; rt-job 17 shows more\n"; got != want {
		t.Errorf("%q", got)
	}
	s.Run.Ending = rt.Ending{State: rt.StateEnded, Outcome: rt.OutcomeOOM}
	if got := text(); got != "" {
		t.Errorf("after the end: %q", got)
	}
}
