package runs

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/table"
	"github.com/resource-tracker/rt/report"
)

// Sum is the sum of lines. What is not known adds nothing.
type Sum struct {
	Name           string  `json:"name"` // of the group
	Jobs           int     `json:"jobs"`
	CoreHours      float64 `json:"core_hours"`
	UnusedHours    float64 `json:"core_hours_unused"`
	GPUHours       float64 `json:"gpu_hours"`
	UnusedGPUHours float64 `json:"gpu_hours_unused"`
	GiBHours       float64 `json:"gib_hours"`
	UnusedGiBHours float64 `json:"gib_hours_unused"`
	Waste          float64 `json:"waste_core_hours"`

	wasteSecs float64 // whole seconds, so that sums in another order are equal
}

// Groups are what SumsBy adds up by.
var Groups = []string{"user", "account", "partition", "name", "week"}

// SumsBy adds up lines by one of Groups, the most waste first. A week is named by its Monday.
func SumsBy(lines []Line, group string) []Sum {
	sums := []Sum{}
	at := map[string]int{}
	for i := range lines {
		name := groupOf(&lines[i], group)
		k, isThere := at[name]
		if !isThere {
			k = len(sums)
			at[name] = k
			sums = append(sums, Sum{Name: name})
		}
		sums[k].addLine(&lines[i])
	}
	slices.SortStableFunc(sums, func(a, b Sum) int { return -cmp.Compare(a.Waste, b.Waste) })
	return sums
}

func groupOf(l *Line, group string) string {
	switch group {
	case "user":
		return l.User
	case "account":
		return l.Account
	case "partition":
		return l.Partition
	case "name":
		return l.Name
	}
	start := l.Start.Local()
	monday := start.AddDate(0, 0, -(int(start.Weekday())+6)%7)
	return monday.Format(time.DateOnly)
}

// SumOf adds up lines.
func SumOf(lines []Line) (s Sum) {
	for i := range lines {
		s.addLine(&lines[i])
	}
	return s
}

func (s *Sum) addLine(l *Line) {
	s.Jobs++
	s.CoreHours += l.CoreHours.Or(0)
	s.UnusedHours += l.UnusedHours.Or(0)
	s.GPUHours += l.GPUHours.Or(0)
	s.UnusedGPUHours += l.UnusedGPUHours.Or(0)
	s.GiBHours += l.GiBHours.Or(0)
	s.UnusedGiBHours += l.UnusedGiBHours.Or(0)
	s.wasteSecs += math.Round(l.WasteHours.Or(0) * 3600)
	s.Waste = s.wasteSecs / 3600
}

// Print prints what was requested and not used together.
func (s *Sum) Print(w io.Writer, prices *report.Prices) {
	var parts []string
	for _, one := range []struct {
		all, unused float64
		unit        string
	}{{s.CoreHours, s.UnusedHours, "core-hours"}, {s.GPUHours, s.UnusedGPUHours, "GPU-hours"}, {s.GiBHours, s.UnusedGiBHours, "GiB-hours of memory"}} {
		if one.all > 0 {
			parts = append(parts, fmt.Sprintf("%s of %s %s not used", report.Significant(one.unused), report.Significant(one.all), one.unit))
		}
	}
	if len(parts) == 0 {
		return
	}
	fmt.Fprintf(w, "Together: %s; waste %s\n", strings.Join(parts, ", "), prices.WasteText(rt.Some(s.Waste*3600), report.Exact))
}

// PrintSums prints sums as a table that fits into width characters, all columns if width is 0.
func PrintSums(w io.Writer, sums []Sum, group string, width int) error {
	hours := func(of func(s *Sum) float64) func(*Sum) string {
		return func(s *Sum) string { return report.Significant(of(s)) }
	}
	columns := []table.Column[Sum]{
		{Head: strings.ToUpper(group), IsName: true, Cell: func(s *Sum) string { return cmp.Or(s.Name, "-") }},
		{Head: "JOBS", Cell: func(s *Sum) string { return fmt.Sprint(s.Jobs) }},
		{Head: "CORE-H", Cell: hours(func(s *Sum) float64 { return s.CoreHours })},
		{Head: "NOT-USED", Drop: 3, Cell: hours(func(s *Sum) float64 { return s.UnusedHours })},
		{Head: "GPU-H", Drop: 1, Cell: hours(func(s *Sum) float64 { return s.GPUHours })},
		{Head: "NOT-USED", Drop: 4, Cell: hours(func(s *Sum) float64 { return s.UnusedGPUHours })},
		{Head: "GIB-H", Drop: 2, Cell: hours(func(s *Sum) float64 { return s.GiBHours })},
		{Head: "NOT-USED", Drop: 5, Cell: hours(func(s *Sum) float64 { return s.UnusedGiBHours })},
		{Head: "WASTE", Cell: hours(func(s *Sum) float64 { return s.Waste })},
	}
	_, err := table.Write(w, columns, sums, width)
	return err
}
