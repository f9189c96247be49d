package html

import (
	"fmt"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

func number[T any](o rt.Opt[T], format string) string {
	if v, ok := o.Get(); ok {
		return fmt.Sprintf(format, v)
	}
	return "-"
}

func percent(o rt.Opt[float64]) string { return number(o, "%.0f %%") }

// size formats bytes in binary units.
func size(o rt.Opt[uint64]) string {
	v, ok := o.Get()
	switch {
	case !ok:
		return "-"
	case v < kib:
		return fmt.Sprintf("%d B", v)
	}
	f, unit := float64(v)/kib, 0
	units := [...]string{"KiB", "MiB", "GiB", "TiB", "PiB"}
	for f >= 1023.5 && unit < len(units)-1 {
		f, unit = f/kib, unit+1
	}
	return report.Significant(f) + " " + units[unit]
}

// seconds formats a time as the text of the report does.
func seconds(o rt.Opt[float64]) string { return report.Clock(o) }

func duration(secs float64) string { return report.Clock(rt.Some(secs)) }
