package main

import (
	"context"
	"io"
	"maps"
	"slices"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/powerapi"
	"github.com/resource-tracker/rt/spool"
)

// powerapiExport writes the reports of one kind as lines of JSON, those of the job
// and those of the node.
func powerapiExport(kind string) func(context.Context, io.Writer, *spool.Reader, rt.Scope) error {
	return func(ctx context.Context, w io.Writer, r *spool.Reader, _ rt.Scope) error {
		return powerapiReports(ctx, r, kind, func(report powerapi.Report) error {
			line, err := report.AppendJSON(nil, powerapi.ISO)
			if err != nil {
				return err
			}
			_, err = w.Write(line)
			return err
		})
	}
}

// powerapiReports visits the reports of a run. The idle power is the least of the
// whole run: a first look finds it.
func powerapiReports(ctx context.Context, r *spool.Reader, kind string, visit func(powerapi.Report) error) error {
	run := r.Run()
	m := newPowerapiMaker(&run, 0)
	if kind == "power" {
		err := intervals(ctx, r, true, func(prev, cur *rt.Snapshot) error {
			if prev != nil {
				m.power(prev, cur)
			}
			return nil
		})
		if err != nil {
			return err
		}
		m.watts.Clear()
	}
	return intervals(ctx, r, true, func(prev, cur *rt.Snapshot) error {
		if prev == nil {
			return nil
		}
		job, node := powerapiKinds[kind](m, prev, cur)
		for _, report := range [...]powerapi.Report{node, job} {
			if report == nil {
				continue
			}
			if err := visit(report); err != nil {
				return err
			}
		}
		return nil
	})
}

// powerapiCSV writes one kind as PowerAPI's CSV input reads it.
func powerapiCSV(kind string) func(context.Context, io.Writer, *spool.Reader, rt.Scope) error {
	return func(ctx context.Context, w io.Writer, r *spool.Reader, _ rt.Scope) error {
		out := powerapi.NewCSVWriter(w)
		if err := powerapiReports(ctx, r, kind, out.Write); err != nil {
			return err
		}
		return out.Flush()
	}
}

// powerapiGroupCSV writes one group of the HWPC reports. The columns are the events
// that were counted at some time; a CPU that lacks one in an interval is left out of
// that, because the format cannot say so.
func powerapiGroupCSV(group string) func(context.Context, io.Writer, *spool.Reader, rt.Scope) error {
	return func(ctx context.Context, w io.Writer, r *spool.Reader, _ rt.Scope) error {
		events := map[string]bool{}
		each := func(visit func(h *powerapi.HWPCReport, socket, cpu uint64, counters powerapi.Counters)) func(powerapi.Report) error {
			return func(report powerapi.Report) error {
				h := report.(*powerapi.HWPCReport)
				for socket, cpus := range h.Groups[group] {
					for cpu, counters := range cpus {
						visit(h, socket, cpu, counters)
					}
				}
				return nil
			}
		}
		err := powerapiReports(ctx, r, "hwpc", each(func(_ *powerapi.HWPCReport, _, _ uint64, counters powerapi.Counters) {
			for event := range counters {
				events[event] = true
			}
		}))
		if err != nil {
			return err
		}
		out := powerapi.NewGroupWriter(w, group, slices.Sorted(maps.Keys(events)))
		whole := each(func(h *powerapi.HWPCReport, socket, cpu uint64, counters powerapi.Counters) {
			if len(counters) < len(events) {
				delete(h.Groups[group][socket], cpu)
			}
		})
		err = powerapiReports(ctx, r, "hwpc", func(report powerapi.Report) error {
			if err := whole(report); err != nil {
				return err
			}
			return out.Write(report)
		})
		if err != nil {
			return err
		}
		return out.Flush()
	}
}
