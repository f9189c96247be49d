package powerapi

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A time from earliest until before latest has a year of four digits.
var (
	earliest = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// appendStamp appends a timestamp as JSON.
func appendStamp(dst []byte, t time.Time, stamp Stamp) ([]byte, error) {
	t = t.UTC()
	switch {
	case t.Before(earliest) || !t.Before(latest):
		return dst, fmt.Errorf("the time %s has no year of four digits", t)
	case stamp == Millis:
		return strconv.AppendInt(dst, t.UnixMilli(), 10), nil
	case t.Nanosecond()%1_000_000/1000 == 0:
		return t.AppendFormat(dst, `"2006-01-02T15:04:05.000"`), nil
	}
	return t.AppendFormat(dst, `"2006-01-02T15:04:05.000000"`), nil
}

// parseStampJSON parses the timestamp of a report of any PowerAPI version: milliseconds as a number
// or as text, or ISO 8601.
func parseStampJSON(raw json.RawMessage) (time.Time, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil && len(raw) > 0 && raw[0] == '"' {
		return parseStamp(text)
	}
	var n json.Number
	if err := json.Unmarshal(raw, &n); err != nil || n == "" {
		return time.Time{}, fmt.Errorf("the timestamp %s is neither a number of milliseconds nor a text", shorten(string(raw)))
	}
	return parseStamp(n.String())
}

func parseStamp(text string) (time.Time, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return bounded(text, time.UnixMilli(ms).UTC(), ms > math.MinInt64/1000 && ms < math.MaxInt64/1000)
	}
	if ms, err := strconv.ParseFloat(text, 64); err == nil {
		us := math.Round(ms * 1000)
		ok := math.Abs(us) < 1e18 // false for NaN too
		if !ok {
			us = 0
		}
		return bounded(text, time.UnixMicro(int64(us)).UTC(), ok)
	}
	iso := strings.Replace(text, " ", "T", 1)
	for _, layout := range [...]string{"2006-01-02T15:04:05", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05-0700"} {
		if t, err := time.Parse(layout, iso); err == nil { // Parse accepts a fraction after the seconds of any layout
			return bounded(text, t.UTC().Truncate(time.Microsecond), true)
		}
	}
	return time.Time{}, fmt.Errorf("the timestamp %q is neither milliseconds since the epoch nor like 2021-01-13T09:51:22.630", shorten(text))
}

// bounded returns t, or an error if ok is false or t has no year of four digits.
func bounded(text string, t time.Time, ok bool) (time.Time, error) {
	if !ok || t.Before(earliest) || !t.Before(latest) {
		return time.Time{}, fmt.Errorf("the timestamp %s has no year of four digits", shorten(text))
	}
	return t, nil
}

// shorten bounds foreign text in an error.
func shorten(s string) string {
	const most = 64
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
