package tracker

import (
	"testing"
	"time"
)

func TestAbsentFor(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		limit time.Time
		want  time.Duration
	}{
		"unknown":  {time.Time{}, 24 * time.Hour},
		"known":    {now.Add(time.Hour), time.Hour + time.Minute},
		"has been": {now.Add(-time.Hour), time.Minute},
	} {
		if got := AbsentFor(now, tt.limit, time.Minute); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
