package runs

import (
	"strconv"
	"strings"
	"time"
)

// ParseTime parses a time in the zone of now. It has the forms of sacct, such as 2026-03-01T12:30, 12:30, 0301, now-2days,
// midnight or teatime. It also has durations before now, such as 7d, 12h or 1w, and the words yesterday, week, month,
// lastweek and lastmonth. It reports whether text is one of these.
func ParseTime(text string, now time.Time) (time.Time, bool) {
	if ago, ok := parseAgo(text); ok {
		return ago(now), true
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, true
	}
	if t, ok := parseWord(strings.ToLower(text), now); ok {
		return t, true
	}
	for _, layout := range dateLayouts {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, true
		}
	}
	for _, layout := range dayLayouts { // of this year
		if t, err := time.ParseInLocation("2006 "+layout, now.Format("2006 ")+text, now.Location()); err == nil {
			return t, true
		}
	}
	for _, layout := range []string{"15:04", time.TimeOnly, "3:04PM", "3:04:05PM", "3:04 PM", "3:04:05 PM"} {
		if t, err := time.ParseInLocation("2006-01-02 "+layout, now.Format("2006-01-02 ")+strings.ToUpper(text), now.Location()); err == nil {
			if t.After(now) {
				t = t.AddDate(0, 0, -1)
			}
			return t, true
		}
	}
	return time.Time{}, false
}

// dateLayouts and dayLayouts are the layouts of dates, with and without a year.
var (
	dateLayouts = []string{
		"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateTime,
		"010206", "01/02/06", "01/02/2006", "01.02.06", "01/02/06-15:04", "01/02/06-15:04:05",
	}
	dayLayouts = []string{"0102", "01/02", "01.02", "01/02-15:04", "01/02-15:04:05"}
)

// parseAgo parses a duration before now.
func parseAgo(text string) (ago func(now time.Time) time.Time, ok bool) {
	for suffix, days := range map[string]int{"d": 1, "w": 7} {
		if count, isDays := strings.CutSuffix(text, suffix); isDays {
			n, err := strconv.ParseUint(count, 10, 16)
			return func(now time.Time) time.Time { return now.AddDate(0, 0, -int(n)*days) }, err == nil
		}
	}
	d, err := time.ParseDuration(text)
	isDuration := err == nil && d >= 0
	return func(now time.Time) time.Time { return now.Add(-d) }, isDuration
}

// hours are the hours of Slurm's words for a time of the day.
var hours = map[string]int{"midnight": 0, "elevenses": 11, "noon": 12, "fika": 15, "teatime": 16}

// units are Slurm's units after now-COUNT, which can be shortened.
var units = []struct {
	name string
	unit time.Duration
}{{"seconds", time.Second}, {"minutes", time.Minute}, {"hours", time.Hour}, {"days", 24 * time.Hour}, {"weeks", 7 * 24 * time.Hour}}

// parseWord parses a word in lower case. A time of the day is the last one that has passed.
func parseWord(word string, now time.Time) (time.Time, bool) {
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch word {
	case "now":
		return now, true
	case "today":
		return today, true
	case "yesterday":
		return today.AddDate(0, 0, -1), true
	case "week":
		return mondayOf(today), true
	case "lastweek":
		return mondayOf(today).AddDate(0, 0, -7), true
	case "month":
		return today.AddDate(0, 0, 1-today.Day()), true
	case "lastmonth":
		return today.AddDate(0, -1, 1-today.Day()), true
	case "tomorrow":
		return today.AddDate(0, 0, 1), true
	}
	if hour, ok := hours[word]; ok {
		t := time.Date(now.Year(), now.Month(), now.Day(), hour, 0, 0, 0, now.Location())
		if t.After(now) {
			t = t.AddDate(0, 0, -1)
		}
		return t, true
	}
	if text, ok := strings.CutPrefix(word, "uts"); ok {
		secs, err := strconv.ParseInt(text, 10, 64)
		return time.Unix(secs, 0), err == nil
	}
	rest, isRelative := strings.CutPrefix(word, "now")
	if !isRelative {
		return time.Time{}, false
	}
	return parseRelative(rest, now)
}

// mondayOf returns the first day of the week.
func mondayOf(day time.Time) time.Time { return day.AddDate(0, 0, -(int(day.Weekday())+6)%7) }

// parseRelative parses what follows now: a sign, a number and a unit, seconds without one.
func parseRelative(text string, now time.Time) (time.Time, bool) {
	end := strings.IndexFunc(text+" ", func(c rune) bool { return !strings.ContainsRune("+-0123456789", c) })
	n, err := strconv.ParseInt(text[:end], 10, 32)
	isSigned := strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-")
	if err != nil || !isSigned {
		return time.Time{}, false
	}
	name := text[end:]
	for _, u := range units {
		if !strings.HasPrefix(u.name, name) { // empty: seconds
			continue
		}
		if u.unit >= 24*time.Hour {
			return now.AddDate(0, 0, int(n)*int(u.unit/(24*time.Hour))), true
		}
		return now.Add(time.Duration(n) * u.unit), true
	}
	return time.Time{}, false
}
