package tui

import (
	"strings"
	"time"
)

// ParseMoment parses a moment of a recording with its first and last reading. The text is one of these:
//   - a duration after the first reading, such as 1m30s, or before the last, such as -10m
//   - a time with its zone, such as 2026-03-01T12:00:00Z
//   - a time in the zone of first, such as 2026-03-01 12:00
//   - a time of the day, such as 12:30. The day is the day of the first reading, or the next day if
//     only that is within the recording.
func ParseMoment(text string, first, last time.Time) (at time.Time, ok bool) {
	if d, err := time.ParseDuration(text); err == nil {
		if strings.HasPrefix(text, "-") {
			return last.Add(d), true
		}
		return first.Add(d), true
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, first.Location()); err == nil {
			return t, true
		}
	}
	for _, layout := range []string{time.TimeOnly, "15:04"} {
		t, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		at := time.Date(first.Year(), first.Month(), first.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), first.Location())
		if next := at.AddDate(0, 0, 1); at.Before(first.Truncate(time.Second)) && !next.After(last) {
			at = next
		}
		return at, true
	}
	return time.Time{}, false
}
