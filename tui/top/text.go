package top

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/tui"
)

// notRead is shown for a value that was not read, which is not 0.
const notRead = "n/a"

// pad fills or cuts a text to a width.
func pad(s string, n int, right bool) string {
	s = tui.Clip(s, n)
	blank := strings.Repeat(" ", max(n-tui.Width(s), 0))
	if right {
		return blank + s
	}
	return s + blank
}

func dash(s string) string { return cmp.Or(report.Plain(s), "-") }

// size formats bytes in at most 5 characters, in units of 1024.
func size(v float64) string {
	if v < 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return compact(v, 1024, "KMGTPE")
}

// bigNumber formats a count in at most 5 characters.
func bigNumber(v float64) string {
	if v < 1e4 {
		return decimal(v)
	}
	return compact(v, 1000, "kMGTPE")
}

// compact formats a number with the unit that leaves at most three digits of it.
func compact(v, base float64, units string) string {
	for _, unit := range units {
		v /= base
		switch {
		case v < 99.95:
			return fmt.Sprintf("%.1f%c", v, unit)
		case v < 999.5 || unit == 'E':
			return fmt.Sprintf("%.0f%c", v, unit)
		}
	}
	return notRead
}

// decimal formats a number with three digits, or all digits of its whole part.
func decimal(v float64) string {
	if v == math.Trunc(v) {
		return fmt.Sprintf("%.0f", v)
	}
	return report.Significant(v)
}

func cores(v float64) string {
	if v < 99.95 {
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func percent(v float64) string { return fmt.Sprintf("%.1f", v) }

func fraction(v float64) string { return fmt.Sprintf("%.2f", v) }

// shown formats v, as notRead if it is absent.
func shown(v rt.Opt[float64], format func(float64) string) string {
	if x, ok := v.Get(); ok && x == x {
		return format(x)
	}
	return notRead
}

func shownSize(v rt.Opt[uint64]) string { return shown(rt.Scaled(v, 1), size) }

// rate formats bytes per second.
func rate(v rt.Opt[float64]) string { return withUnit(v, size, "/s") }

func withUnit(v rt.Opt[float64], format func(float64) string, unit string) string {
	if !v.Valid() {
		return notRead
	}
	return shown(v, format) + unit
}

// cpuTime formats seconds of CPU time, with hundredths below a minute.
func cpuTime(secs float64) string { return report.Clock(rt.Some(secs)) }

// span formats a time as h:mm:ss, and as d-hh:mm from a day on.
func span(secs float64) string {
	d := time.Duration(max(secs, 0) * float64(time.Second)).Truncate(time.Second)
	h, m, s := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	if h >= 24 {
		return fmt.Sprintf("%d-%02d:%02d", h/24, h%24, m)
	}
	return fmt.Sprintf("%d:%02d:%02d", h, m, s)
}

// brush draws with the characters of the terminal.
type brush struct {
	ascii bool
	width int // of the screen
}

// spark draws the last values that fit into n columns, from 0 to top, with blanks for
// absent ones. A top of 0 is the highest value.
func (b brush) spark(values []rt.Opt[float64], top float64, n int) string {
	values = values[max(0, len(values)-max(n, 0)):]
	if top <= 0 {
		top = report.Peak(values)
	}
	return strings.Repeat(" ", max(n-len(values), 0)) + report.Sparkline(values, top, b.ascii)
}

// bar draws a share in n columns.
func (b brush) bar(pct rt.Opt[float64], n int) string {
	v, ok := pct.Get()
	if !ok || n < 1 {
		return strings.Repeat(" ", max(n, 0))
	}
	return report.Bar(v, n, b.ascii)
}
