package runs

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/table"
	"github.com/resource-tracker/rt/report"
)

// Sum is the sum of lines. What is not known adds nothing; a figure that no line has is absent. A job that is running
// adds only to Jobs: its figures are not final.
type Sum struct {
	Name  string `json:"name"` // of the group
	Jobs  int    `json:"jobs"`
	Known int    `json:"jobs_known"` // whose waste is known
	report.Hours

	sum     report.Sum // the hours come from it: sums of seconds in another order are equal
	running int        // of Jobs
}

// Groups are what SumsBy adds up by.
var Groups = []string{"user", "account", "partition", "name", "week"}

// SumsBy adds up lines by one of Groups, the most waste first. A week is named by its Monday.
func SumsBy(lines []Line, group string, prices report.Prices) []Sum {
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
		sums[k].addLine(&lines[i], prices)
	}
	slices.SortStableFunc(sums, func(a, b Sum) int { return -cmp.Compare(a.WasteHours.Or(0), b.WasteHours.Or(0)) })
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
	return mondayOf(l.Start.Local()).Format(time.DateOnly)
}

// SumOf adds up lines.
func SumOf(lines []Line, prices report.Prices) (s Sum) {
	for i := range lines {
		s.addLine(&lines[i], prices)
	}
	return s
}

func (s *Sum) addLine(l *Line, prices report.Prices) {
	s.Jobs++
	if l.State == string(rt.StateRunning) {
		s.running++
		return
	}
	if l.WasteHours.Valid() {
		s.Known++
	}
	s.sum.AddSum(&l.Sum)
	s.Hours = s.sum.Hours(prices)
}

// Print prints what was requested and not used together.
func (s *Sum) Print(w io.Writer, prices *report.Prices) {
	var parts []string
	for _, one := range []struct {
		all, unused rt.Opt[float64]
		mark        report.Mark
		unit        string
	}{
		{s.CoreHours, s.UnusedCoreHours, s.sum.CoreMark.Rest(), "core-hours"}, {s.GPUHours, s.UnusedGPUHours, report.Exact, "GPU-hours"},
		{s.GiBHours, s.UnusedGiBHours, s.sum.MemoryMark.Rest(), "GiB-hours of memory"},
	} {
		if one.all.Or(0) > 0 {
			parts = append(parts, fmt.Sprintf("%s of %s %s not used", one.mark.Of(hoursText(one.unused)), hoursText(one.all), one.unit))
		}
	}
	if len(parts) == 0 {
		return
	}
	fmt.Fprintf(w, "Together: %s; waste %s\n%s", strings.Join(parts, ", "), prices.WasteText(s.sum.WasteSecs, s.WasteMark), noteOf(s.Jobs, s.Known, s.running))
}

// noteOf says how many jobs are not in a sum of waste; empty for none.
func noteOf(jobs, known, running int) (note string) {
	if running > 0 {
		note = fmt.Sprintf("%d of %d jobs are running: running jobs are not in the sums\n", running, jobs)
	}
	if unknown := jobs - known - running; unknown > 0 {
		note += fmt.Sprintf("%d of %d jobs have no figures of their waste, and are not in its sum\n", unknown, jobs)
	}
	return note
}

// PrintSums prints sums as a table that fits into width characters, all columns if width is 0.
func PrintSums(w io.Writer, sums []Sum, group string, width int) error {
	hours := func(of func(s *Sum) rt.Opt[float64]) func(*Sum) string {
		return func(s *Sum) string { return hoursText(of(s)) }
	}
	columns := []table.Column[Sum]{
		{Head: strings.ToUpper(group), IsName: true, Cell: func(s *Sum) string { return cmp.Or(s.Name, "-") }},
		{Head: "JOBS", Cell: func(s *Sum) string { return fmt.Sprint(s.Jobs) }},
		{Head: "CORE-H", Cell: hours(func(s *Sum) rt.Opt[float64] { return s.CoreHours })},
		{Head: "NOT-USED", Drop: 3, Cell: func(s *Sum) string { return s.sum.CoreMark.Rest().Sign(hoursText(s.UnusedCoreHours)) }},
		{Head: "GPU-H", Drop: 1, Cell: hours(func(s *Sum) rt.Opt[float64] { return s.GPUHours })},
		{Head: "NOT-USED", Drop: 4, Cell: hours(func(s *Sum) rt.Opt[float64] { return s.UnusedGPUHours })},
		{Head: "GIB-H", Drop: 2, Cell: hours(func(s *Sum) rt.Opt[float64] { return s.GiBHours })},
		{Head: "NOT-USED", Drop: 5, Cell: func(s *Sum) string { return s.sum.MemoryMark.Rest().Sign(hoursText(s.UnusedGiBHours)) }},
		{Head: "WASTE", Cell: func(s *Sum) string { return s.WasteMark.Sign(hoursText(s.WasteHours)) }},
	}
	jobs, known, running := 0, 0, 0
	for i := range sums {
		jobs, known, running = jobs+sums[i].Jobs, known+sums[i].Known, running+sums[i].running
	}
	_, err := table.Write(w, columns, sums, width)
	if err == nil {
		_, err = io.WriteString(w, noteOf(jobs, known, running))
	}
	return err
}

// hoursText is a figure of a sum; "-" if no line has it.
func hoursText(hours rt.Opt[float64]) string {
	if v, isKnown := hours.Get(); isKnown {
		return report.Significant(v)
	}
	return "-"
}
