package spool

import (
	"database/sql/driver"
	"maps"
	"slices"

	"github.com/resource-tracker/rt"
)

// pending holds copies of the snapshots that are not committed yet, the oldest first. Its
// storage is reused: in steady operation it allocates nothing.
type pending struct {
	rows   []*rt.Snapshot
	spare  []*rt.Snapshot
	merged int // rows that were thinned since the last reset
}

// add copies s.
func (p *pending) add(s *rt.Snapshot, opts *Options) {
	var row *rt.Snapshot
	if n := len(p.spare); n > 0 {
		row, p.spare = p.spare[n-1], p.spare[:n-1]
	} else {
		row = new(rt.Snapshot)
	}
	copySnapshot(row, s, opts)
	p.rows = append(p.rows, row)
}

// reset drops the rows, which are stored.
func (p *pending) reset() {
	p.spare = append(p.spare, p.rows...)
	p.rows = p.rows[:0]
	p.merged = 0
}

// thin drops every second tick of the older three quarters, or at least one row. Counters are
// cumulative, so that the next row includes the total of a dropped one; a counter that is absent
// there is taken over. The rows that boundaries marks stay, unless no other row can be dropped.
func (p *pending) thin() {
	stays := boundaries(p.rows)
	kept := p.rows[:0:0]
	old := len(p.rows) * 3 / 4
	dropNext := false
	for i, row := range p.rows {
		drop := dropNext && i < old && i > 0 && row.Reason == rt.ReasonTick && !stays[i]
		dropNext = !drop
		if !drop {
			kept = append(kept, row)
			continue
		}
		p.rows[i+1].Absorb(row)
		p.spare = append(p.spare, row)
	}
	if n := len(kept); n == len(p.rows) && n > 2 {
		at := max(slices.Index(stays[1:n-1], false)+1, 1)
		kept[at+1].Absorb(kept[at])
		p.spare = append(p.spare, kept[at])
		kept = slices.Delete(kept, at, at+1)
	}
	p.merged += len(p.rows) - len(kept)
	p.rows = kept
}

// boundaries marks the first reading of each counter. It also marks the rows before and after each
// fall of a counter and each change of the job's phase.
func boundaries(rows []*rt.Snapshot) []bool {
	stays := make([]bool, len(rows))
	stored := make([][]driver.Value, len(rows))
	lists := listCounters{}
	for i, row := range rows {
		stored[i] = values(snapshotColumns(row, everyFigure))
		stays[i] = lists.add(row)
		if i > 0 && row.Job.Phase != rows[i-1].Job.Phase {
			stays[i], stays[i-1] = true, true
		}
	}
	markCounters(stored, stays)
	return stays
}

// listCounter identifies a counter in a list of a snapshot.
type listCounter struct {
	source, domain, name string
	cpu                  uint64
}

// listCounters are the counters in lists of the rows so far.
type listCounters map[listCounter]bool

// add adds the counters of a row, and reports whether one of them is new.
func (l listCounters) add(row *rt.Snapshot) (hasNew bool) {
	before := len(l)
	for i := range row.Energy {
		if e := &row.Energy[i]; e.Energy.Valid() {
			l[listCounter{e.Source, e.Domain, string(e.Kind), 0}] = true
		}
	}
	for i := range row.Perf {
		if p := &row.Perf[i]; p.Value.Valid() {
			l[listCounter{p.Group, "", p.Event, p.CPU}] = true
		}
	}
	return len(l) > before
}

// copySnapshot copies s to dst without what opts omits. It reuses the slices of dst.
func copySnapshot(dst, s *rt.Snapshot, opts *Options) {
	old := *dst
	*dst = *s
	dst.CPUs, dst.Nets, dst.Disks, dst.Mounts, dst.GPUs = old.CPUs[:0], old.Nets[:0], old.Disks[:0], old.Mounts[:0], old.GPUs[:0]
	dst.Fabrics, dst.RemoteFS = old.Fabrics[:0], old.RemoteFS[:0]
	dst.Steps = append(old.Steps[:0], s.Steps...)
	dst.Procs = append(old.Procs[:0], s.Procs...)
	dst.GPUProcesses = append(old.GPUProcesses[:0], s.GPUProcesses...)
	dst.Energy = append(old.Energy[:0], s.Energy...)
	dst.Perf = append(old.Perf[:0], s.Perf...)
	if !opts.WithoutCores {
		dst.CPUs = append(dst.CPUs, s.CPUs...)
	}
	if opts.WithoutDevices {
		return
	}
	dst.Nets = append(dst.Nets, s.Nets...)
	dst.Disks = append(dst.Disks, s.Disks...)
	dst.Mounts = append(dst.Mounts, s.Mounts...)
	dst.Fabrics = append(dst.Fabrics, s.Fabrics...)
	dst.RemoteFS = append(dst.RemoteFS, s.RemoteFS...)
	copyGPUs(dst, s)
}

func copyGPUs(dst, s *rt.Snapshot) {
	for i := range s.GPUs {
		var detail map[string]string // of the same index in the row that is reused
		if i < cap(dst.GPUs) {
			detail = dst.GPUs[:i+1][i].Detail
		}
		dst.GPUs = append(dst.GPUs, s.GPUs[i])
		if len(detail) != 0 && maps.Equal(detail, s.GPUs[i].Detail) {
			dst.GPUs[i].Detail = detail
		} else {
			dst.GPUs[i].Detail = maps.Clone(s.GPUs[i].Detail)
		}
	}
}
