package tui

import (
	"testing"
	"time"
)

// What --from and --to take.
func TestParseMoment(t *testing.T) {
	start := time.Date(2026, 3, 1, 20, 37, 37, 5e8, time.Local)
	const long, short = 12 * time.Hour, time.Hour
	for _, c := range []struct {
		text string
		of   time.Duration
		want string
	}{
		{"90s", short, "2026-03-01T20:39:07.5"}, {"-30m", short, "2026-03-01T21:07:37.5"}, {"20:37:37", short, "2026-03-01T20:37:37"},
		{"20:37", short, "2026-03-01T20:37:00"}, {"21:00", short, "2026-03-01T21:00:00"}, {"01:30", long, "2026-03-02T01:30:00"},
		{"2026-03-02 08:00", long, "2026-03-02T08:00:00"}, {"2026-03-02", long, "2026-03-02T00:00:00"}, {"noon", long, ""}, {"25:00", long, ""},
	} {
		at, ok := ParseMoment(c.text, start, start.Add(c.of))
		if got := at.Format("2006-01-02T15:04:05.9"); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%q is %s (%t), want %q", c.text, got, ok, c.want)
		}
	}
}
