package report

import (
	"fmt"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
)

// Size formats bytes with three significant digits in binary units. 1000 MiB stay 1000 MiB, because a
// request of --mem=1000M reads so.
func Size(o rt.Opt[uint64]) string {
	v, ok := o.Get()
	switch {
	case !ok:
		return "-"
	case v < 1<<10:
		return fmt.Sprintf("%d B", v)
	}
	f := float64(v)
	for _, unit := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		f /= 1024
		if f < 1023.5 || unit == "PiB" {
			return Significant(f) + " " + unit
		}
	}
	return "-"
}

// Significant formats a number with three significant digits, or all digits of its whole part.
func Significant(f float64) string {
	switch {
	case f < 9.995:
		return fmt.Sprintf("%.2f", f)
	case f < 99.95:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}

// Number formats a figure, "-" if it is absent.
func Number[T any](o rt.Opt[T], format string) string {
	if v, ok := o.Get(); ok {
		return fmt.Sprintf(format, v)
	}
	return "-"
}

func count(o rt.Opt[uint64]) string { return Number(o, "%d") }

// bytes is Size for a number with a fraction.
func bytes(o rt.Opt[float64]) string { return Size(whole(o)) }

// Clock formats seconds as Slurm does, D-HH:MM:SS, rounded down; below a minute with a fraction,
// 9.00 s.
func Clock(o rt.Opt[float64]) string {
	secs, ok := o.Get()
	switch {
	case !ok:
		return "-"
	case secs < 60:
		return fmt.Sprintf("%.2f s", secs)
	}
	all := int(secs)
	days := ""
	if all >= 24*3600 {
		days = fmt.Sprintf("%d-", all/(24*3600))
	}
	return fmt.Sprintf("%s%02d:%02d:%02d", days, all/3600%24, all/60%60, all%60)
}

// Joules formats an energy with three significant digits: 53.1 kJ.
func Joules(o rt.Opt[float64]) string {
	f, ok := o.Get()
	if !ok {
		return "-"
	}
	units := []string{"J", "kJ", "MJ", "GJ"}
	for f >= 999.5 && len(units) > 1 {
		f, units = f/1000, units[1:]
	}
	return Significant(f) + " " + units[0]
}

// coreHours formats seconds of CPU time as a number of core-hours.
func coreHours(o rt.Opt[float64]) string {
	if secs, ok := o.Get(); ok {
		return Significant(secs / 3600)
	}
	return "-"
}

// Plain is printable.Text.
func Plain(s string) string { return printable.Text(s) }

// cut shortens a line to width columns.
func cut(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	return string(r[:width-3]) + "..."
}

// Sparkline draws a series from 0 to top with one column per value. An absent value is a
// space. With ascii it uses only ASCII characters.
func Sparkline(series []rt.Opt[float64], top float64, ascii bool) string {
	ramp := []rune("▁▂▃▄▅▆▇█")
	if ascii {
		ramp = []rune("_.:-=+*#")
	}
	out := make([]rune, len(series))
	for i, o := range series {
		v, ok := o.Get()
		switch {
		case !ok:
			out[i] = ' '
		case top <= 0 || v <= 0:
			out[i] = ramp[0]
		default:
			out[i] = ramp[min(int(v/top*float64(len(ramp))), len(ramp)-1)]
		}
	}
	return string(out)
}

// Peak returns the highest value of a series, 0 for an empty one.
func Peak(series []rt.Opt[float64]) float64 {
	top := 0.0
	for _, o := range series {
		top = max(top, o.Or(0))
	}
	return top
}

// Bar draws a percentage as a bar of n characters. With ascii it uses only ASCII characters.
func Bar(pct float64, n int, ascii bool) string {
	full, empty := "█", "·"
	if ascii {
		full, empty = "#", "."
	}
	on := int(min(max(pct, 0), 100)/100*float64(n) + 0.5)
	return strings.Repeat(full, on) + strings.Repeat(empty, n-on)
}
