package delivery

import (
	"fmt"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/resourcetracker"
	"github.com/resource-tracker/rt/upload"
)

// Format is an upload.Format with the columns of each dialect.
func Format(run *rt.Run, dialect string, scope rt.Scope) (upload.Encoder, error) {
	switch dialect {
	case upload.DialectSpec:
		return SpecRows{scope}, nil
	case upload.DialectLive:
		return liveRows{run.PID}, nil
	}
	return nil, fmt.Errorf("no columns are known for dialect %q", dialect)
}

// SpecRows encodes the 21 columns of section 7.2.
type SpecRows struct{ Scope rt.Scope }

// Header implements upload.Encoder.
func (SpecRows) Header() []byte { return []byte(resourcetracker.CSVHeader) }

// Append implements upload.Encoder.
func (e SpecRows) Append(dst []byte, prev, cur *rt.Snapshot) []byte {
	s := rt.DeriveScalars(prev, cur, e.Scope)
	return resourcetracker.AppendCSV(dst, timestamp(cur), &s)
}

// liveRows encodes the 32 columns of the running Sentinel service.
type liveRows struct{ pid rt.Opt[uint64] }

// Header implements upload.Encoder.
func (liveRows) Header() []byte { return []byte(resourcetracker.LiveCSVHeader) }

// Append implements upload.Encoder.
func (e liveRows) Append(dst []byte, prev, cur *rt.Snapshot) []byte {
	system := rt.DeriveScalars(prev, cur, rt.ScopeNode)
	process := rt.DeriveProcess(prev, cur)
	return resourcetracker.AppendLiveCSV(dst, timestamp(cur), &system, e.pid, &process)
}

func timestamp(s *rt.Snapshot) int64 { return s.Wall / 1e9 }
