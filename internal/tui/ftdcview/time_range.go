package ftdcview

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt/format/ftdc"
	"github.com/resource-tracker/rt/internal/tui"
)

// setRange sets the time range.
func (v *View) setRange(from, to string) error {
	var whole *Summary
	for _, b := range []struct {
		flag, text string
		at         *int64
	}{{"--from", from, &v.from}, {"--to", to, &v.to}} {
		if b.text == "" {
			continue
		}
		if t, err := time.Parse(time.RFC3339Nano, b.text); err == nil {
			*b.at = t.UnixNano()
			continue
		}
		if whole == nil {
			var err error
			all := View{files: v.files, match: regexp.MustCompile(`^\z.`), from: math.MinInt64, to: math.MaxInt64, anyTime: v.anyTime}
			whole, err = all.Summarize()
			if err != nil && !errors.Is(err, ErrDamaged) {
				return err
			}
		}
		at, ok := momentOf(b.text, whole)
		if !ok {
			return tui.WithKind(ErrTimeRange, fmt.Errorf("%s %q: it is a time such as 2026-03-01T12:00:00Z or 12:00:30, or a duration such as 10m after the first reading or -10m before the last", b.flag, b.text))
		}
		*b.at = at
	}
	return nil
}

// momentOf parses a duration after the first reading or before the last, a local time, or
// a time of the day: on the day of the first reading, or on the next day if only that is
// within the readings.
func momentOf(text string, whole *Summary) (int64, bool) {
	if d, err := time.ParseDuration(text); err == nil {
		if strings.HasPrefix(text, "-") {
			return whole.last + int64(d), true
		}
		return whole.first + int64(d), true
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t.UnixNano(), true
		}
	}
	for _, layout := range []string{time.TimeOnly, "15:04"} {
		t, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		first := time.Unix(0, whole.first)
		at := time.Date(first.Year(), first.Month(), first.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.Local)
		if next := at.AddDate(0, 0, 1); at.Before(first) && next.UnixNano() <= whole.last {
			at = next
		}
		return at.UnixNano(), true
	}
	return 0, false
}

// sortFiles sorts the files by the time of their first readings. A file that cannot be
// read keeps its place.
func (v *View) sortFiles() {
	if len(v.files) < 2 {
		return
	}
	for i := range v.files {
		v.files[i].first = math.MinInt64
		if i > 0 {
			v.files[i].first = v.files[i-1].first
		}
		r, err := v.files[i].open()
		if err != nil {
			continue // scan reports it
		}
		if at, err := ftdc.NewDecoder(r).Next(); err == nil {
			v.files[i].first = at
		}
		_ = r.Close() // it was read only
	}
	slices.SortStableFunc(v.files, func(a, b file) int { return cmp.Compare(a.first, b.first) })
}
