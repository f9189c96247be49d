package powerapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// ExportJSON writes the reports of one kind, hwpc, power or procfs, as lines of JSON.
func ExportJSON(ctx context.Context, w io.Writer, r *spool.Reader, kind string) error {
	return reports(ctx, r, kind, func(report Report) error {
		line, err := report.AppendJSON(nil, ISO)
		if err != nil {
			return err
		}
		_, err = w.Write(line)
		return err
	})
}

// reports visits the reports of a run, merged with the stored reports of other sensors by time.
// It leaves out stored figures that rt has too: a formula would add up both. A run that was
// imported from reports has only stored ones.
func reports(ctx context.Context, r *spool.Reader, kind string, visit func(Report) error) error {
	kept, err := storedReports(ctx, r, kind)
	if err != nil {
		return err
	}
	if r.Run().TrackerVersion != source {
		kept, err = withoutOwn(ctx, r, kind, kept)
		if err != nil {
			return err
		}
		err = ownReports(ctx, r, kind, func(report Report) error {
			for len(kept) > 0 && !kept[0].Head().Time.After(report.Head().Time) {
				if err := visit(kept[0]); err != nil {
					return err
				}
				kept = kept[1:]
			}
			return visit(report)
		})
	}
	for i := 0; err == nil && i < len(kept); i++ {
		err = visit(kept[i])
	}
	return err
}

func kindOfReport(report Report) string {
	switch report.(type) {
	case *HWPCReport:
		return "hwpc"
	case *PowerReport:
		return "power"
	}
	return "procfs"
}

// ownReports visits the reports of the readings of a run. A first pass finds the idle power.
func ownReports(ctx context.Context, r *spool.Reader, kind string, visit func(Report) error) error {
	run := r.Run()
	m := NewMaker(&run, 0)
	if kind == "power" {
		for i, err := range rt.Intervals(r.Snapshots(ctx, 1, 0)) {
			if err != nil {
				return err
			}
			m.power(i.Prev, i.Cur)
		}
		m.watts.Clear()
	}
	for i, err := range rt.Intervals(r.Snapshots(ctx, 1, 0)) {
		if err != nil {
			return err
		}
		node, reports := m.Reports(kind, i.Prev, i.Cur)
		if node != nil {
			reports = slices.Insert(reports, 0, node)
		}
		for _, report := range reports {
			if err := visit(report); err != nil {
				return err
			}
		}
	}
	return nil
}

// ExportCSV writes the reports of one kind as the CSV input of PowerAPI reads them.
func ExportCSV(ctx context.Context, w io.Writer, r *spool.Reader, kind string) error {
	out := NewCSVWriter(w)
	if err := reports(ctx, r, kind, out.Write); err != nil {
		return err
	}
	return out.Flush()
}

// ExportGroupCSV writes one group of the HWPC reports: core, rapl or msr. Each event that was
// counted at any time has a column. The format has no absent values, so a CPU that lacks an
// event in an interval has no row there; the error is LeftOut then. The events of other sensors
// differ, so their reports are written only if rt counted no event of the group.
func ExportGroupCSV(ctx context.Context, w io.Writer, r *spool.Reader, group string) error {
	from := reportSource(ownReports)
	events, err := eventsOf(ctx, r, group, from)
	if err != nil {
		return err
	}
	if len(events) == 0 || r.Run().TrackerVersion == source {
		from = reports
		events, err = eventsOf(ctx, r, group, from)
		if err != nil {
			return err
		}
	}
	short := LeftOut{}
	out := NewGroupWriter(w, group, slices.Sorted(maps.Keys(events)))
	err = from(ctx, r, "hwpc", func(report Report) error {
		eachCPU(report, group, func(h *HWPCReport, socket, cpu uint64, counters Counters) {
			if len(counters) < len(events) {
				delete(h.Groups[group][socket], cpu)
				short[h.Target]++
			}
		})
		return out.Write(report)
	})
	if err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if len(short) > 0 {
		return short
	}
	return nil
}

// LeftOut has the number of rows of each target that a table of events has no place for.
type LeftOut map[string]int

func (l LeftOut) Error() string {
	var targets []string
	for _, target := range slices.Sorted(maps.Keys(l)) {
		targets = append(targets, fmt.Sprintf("%d of %s", l[target], target))
	}
	return "rows of CPUs that have not counted all events of the table are left out: " + strings.Join(targets, ", ")
}

type reportSource func(ctx context.Context, r *spool.Reader, kind string, visit func(Report) error) error

func eventsOf(ctx context.Context, r *spool.Reader, group string, from reportSource) (map[string]bool, error) {
	events := map[string]bool{}
	err := from(ctx, r, "hwpc", func(report Report) error {
		eachCPU(report, group, func(_ *HWPCReport, _, _ uint64, counters Counters) {
			for event := range counters {
				events[event] = true
			}
		})
		return nil
	})
	return events, err
}

func eachCPU(report Report, group string, visit func(h *HWPCReport, socket, cpu uint64, counters Counters)) {
	h := report.(*HWPCReport)
	for socket, cpus := range h.Groups[group] {
		for cpu, counters := range cpus {
			visit(h, socket, cpu, counters)
		}
	}
}

// ErrReport means that a report of PowerAPI that is stored with a run cannot be parsed.
var ErrReport = errors.New("a report that is stored with the run")

// storedReports returns the stored reports of one kind, all for an empty kind, in the order of time.
func storedReports(ctx context.Context, r *spool.Reader, kind string) ([]Report, error) {
	var out []Report
	for rec, err := range r.Records(ctx, source) {
		if err != nil {
			return nil, err
		}
		report, err := ParseJSON(rec.Body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", r.Path(), ErrReport, err)
		}
		if kind == "" || kindOfReport(report) == kind {
			out = append(out, report)
		}
	}
	slices.SortStableFunc(out, func(a, b Report) int { return a.Head().Time.Compare(b.Head().Time) })
	return out, nil
}

// figure is the subject of a part of a report: a target, and for counters their group.
type figure struct{ target, group string }

// withoutOwn removes the figures that rt has too from the reports of other sensors.
func withoutOwn(ctx context.Context, r *spool.Reader, kind string, kept []Report) ([]Report, error) {
	if len(kept) == 0 {
		return nil, nil
	}
	own := map[figure]bool{}
	err := ownReports(ctx, r, kind, func(report Report) error {
		keepFigures(report, func(f figure) bool {
			own[f] = true
			return true
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(kept, func(report Report) bool {
		return keepFigures(report, func(f figure) bool { return !own[f] }) == 0
	}), nil
}

// keepFigures removes the figures for which keep is false, and returns how many are left.
func keepFigures(report Report, keep func(figure) bool) (n int) {
	switch r := report.(type) {
	case *HWPCReport:
		maps.DeleteFunc(r.Groups, func(group string, _ Sockets) bool { return !keep(figure{r.Target, group}) })
		return len(r.Groups)
	case *PowerReport:
		if keep(figure{target: r.Target}) {
			return 1
		}
	case *ProcfsReport:
		r.Targets = slices.DeleteFunc(r.Targets, func(target string) bool { return !keep(figure{target: target}) })
		maps.DeleteFunc(r.Usage, func(target string, _ float64) bool { return !slices.Contains(r.Targets, target) })
		return len(r.Targets)
	}
	return 0
}
