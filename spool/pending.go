package spool

import (
	"database/sql/driver"
	"maps"
	"slices"

	"github.com/resource-tracker/rt"
)

// pending holds copies of the snapshots that are not committed yet, the oldest first.
type pending struct {
	rows   []*rt.Snapshot
	merged int // rows that were thinned since the last reset
}

// add copies s.
func (p *pending) add(s *rt.Snapshot) {
	row := new(rt.Snapshot)
	row.CopyFrom(s)
	for i := range row.GPUs { // CopyFrom shares them
		row.GPUs[i].Detail = maps.Clone(row.GPUs[i].Detail)
	}
	p.rows = append(p.rows, row)
}

// reset drops the rows, which are stored.
func (p *pending) reset() {
	*p = pending{}
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
	}
	if n := len(kept); n == len(p.rows) && n > 2 {
		at := max(slices.Index(stays[1:n-1], false)+1, 1)
		kept[at+1].Absorb(kept[at])
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
