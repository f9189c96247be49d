package report

import (
	"strings"
	"testing"
	"time"
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
	for _, j := range []*Job{j, missing, hostile} {
		if err := WriteOneLine(&b, j); err != nil {
			t.Fatal(err)
		}
		if err := WriteMarkdown(&b, j, TextOptions{}); err != nil {
			t.Fatal(err)
		}
		b.WriteString("\n")
	}
	golden(t, "shortforms.md", b.String())
	if strings.Contains(b.String(), "\x1b") {
		t.Errorf("a name reaches the terminal:\n%s", b.String())
	}
	if err := WriteOneLine(failing{}, j); err == nil {
		t.Error("no error")
	}
	if err := WriteMarkdown(failing{}, j, TextOptions{}); err == nil {
		t.Error("no error")
	}
}
