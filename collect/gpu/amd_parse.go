package gpu

import (
	"bytes"

	"github.com/resource-tracker/rt/internal/procfile"
)

// parseClock finds the clock in MHz in pp_dpm_sclk, which has one state a line and a star
// after the current one: "1: 1700Mhz *".
func parseClock(b []byte) (uint64, bool) {
	for len(b) > 0 {
		var line []byte
		line, b = procfile.Line(b)
		line = bytes.TrimSpace(line)
		if bytes.HasSuffix(line, []byte{'*'}) && bytes.IndexByte(line, ':') >= 0 {
			return clockOf(line)
		}
	}
	return 0, false
}

// parseMaxClock finds the highest clock of all states.
func parseMaxClock(b []byte) (most uint64, found bool) {
	for line := range bytes.Lines(b) {
		if mhz, ok := clockOf(line); ok {
			most, found = max(most, mhz), true
		}
	}
	return most, found
}

// clockOf is the clock of one state.
func clockOf(line []byte) (uint64, bool) {
	_, state, ok := bytes.Cut(line, []byte{':'})
	if !ok {
		return 0, false
	}
	state = bytes.TrimLeft(state, " ")
	unit := bytes.TrimLeft(state, "0123456789")
	mhz, ok := procfile.Uint(state[:len(state)-len(unit)])
	return mhz, ok && len(unit) >= 3 && bytes.EqualFold(unit[:3], []byte("mhz"))
}
