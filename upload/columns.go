package upload

import (
	"fmt"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/resourcetracker"
)

// columns are the columns of one dialect of the API.
type columns struct {
	header string // the first line, with its end
	// appendRow appends the row of the interval between two snapshots, with its end.
	appendRow func(dst []byte, prev, cur *rt.Snapshot) []byte
}

// columnsOf returns the columns of a run in a dialect, with the figures of a scope. Equal arguments give equal bytes.
func columnsOf(run *rt.Run, dialect string, scope rt.Scope) (columns, error) {
	timestamp := func(s *rt.Snapshot) int64 { return s.Wall / 1e9 }
	switch dialect {
	case DialectSpec: // the 21 columns of section 7.2
		return columns{resourcetracker.CSVHeader, func(dst []byte, prev, cur *rt.Snapshot) []byte {
			s := rt.DeriveScalars(prev, cur, scope)
			return resourcetracker.AppendCSV(dst, timestamp(cur), &s)
		}}, nil
	case DialectLive: // the 32 columns of the running Sentinel service
		pid := run.PID
		return columns{resourcetracker.LiveCSVHeader, func(dst []byte, prev, cur *rt.Snapshot) []byte {
			system := rt.DeriveScalars(prev, cur, rt.ScopeNode)
			process := rt.DeriveProcess(prev, cur)
			return resourcetracker.AppendLiveCSV(dst, timestamp(cur), &system, pid, &process)
		}}, nil
	}
	return columns{}, fmt.Errorf("no columns are known for dialect %q", dialect)
}
