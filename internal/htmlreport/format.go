package htmlreport

import (
	"fmt"
	"time"

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

func seconds(o rt.Opt[float64]) string {
	secs, ok := o.Get()
	if !ok {
		return "-"
	}
	return duration(secs)
}

// duration formats seconds as Slurm does, D-HH:MM:SS.
func duration(secs float64) string {
	if secs < 60 {
		return report.Significant(secs) + " s"
	}
	d := time.Duration(secs * float64(time.Second)).Round(time.Second)
	h, m, s := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	if h >= 24 {
		return fmt.Sprintf("%d-%02d:%02d:%02d", h/24, h%24, m, s)
	}
	return fmt.Sprintf("%02d:%02d:%02d", h, m, s)
}
