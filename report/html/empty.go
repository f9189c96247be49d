package html

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
)

// emptyOf returns why figures of a run have no plot, by their keys. Nothing was measured, or all values are 0 and no
// limit gives a scale. A figure without lines and without a reason is not on the page.
func emptyOf(s *report.Summary, lines []packedLine, levels []level) map[string]string {
	empty := map[string]string{}
	for i := range figures {
		key := figures[i].Key
		isOf := func(l packedLine) bool { return l.Figure == key }
		isShown := func(l packedLine) bool { return l.Figure == key && l.Max > 0 }
		hasLevel := slices.ContainsFunc(levels, func(l level) bool { return l.Figure == key })
		switch {
		case !slices.ContainsFunc(lines, isOf):
			if why := whyNoLine(key, s); why != "" {
				empty[key] = printable.Text(why)
			}
		case !slices.ContainsFunc(lines, isShown) && !hasLevel:
			empty[key] = whyZero(key, s)
		}
	}
	return empty
}

// whyNoLine returns why a figure that most readers look for has no line.
func whyNoLine(key string, s *report.Summary) string {
	unread := "it could not be read while the job ran"
	if s.Record.Readings < 2 {
		unread = fmt.Sprintf("a plot needs 2 readings, and %d was taken", s.Record.Readings)
	}
	switch key {
	case cpuFigure:
		return "Not measured: " + cmp.Or(s.CPU.Reason, unread)
	case memoryFigure:
		return "Not measured: " + cmp.Or(s.Memory.Reason, unread)
	case ioFigure:
		return "Not measured: " + cmp.Or(s.IO.Reason, unread)
	case gpuBusyFigure:
		if isUnread := s.Scope == report.ScopeJob && s.Run.GPUs != "" && len(s.GPUs) == 0; isUnread {
			return "GPUs with the index " + s.Run.GPUs + " are allocated; nothing was read of them"
		}
	}
	return ""
}

func whyZero(key string, s *report.Summary) string {
	hasIO := s.IO.ReadBytes.Or(0) > 0 || s.IO.WriteBytes.Or(0) > 0
	switch {
	case key == ioFigure && hasIO:
		return fmt.Sprintf("No I/O after the first reading; in all: read %s, written %s", report.Size(s.IO.ReadBytes), report.Size(s.IO.WriteBytes))
	case key == ioFigure:
		return "No I/O: nothing was read from a disk or written to one"
	}
	return "0 at all readings"
}
