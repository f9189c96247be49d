package gpu

import (
	"bytes"
	"math"
)

// number reads the decimal number that b begins with; what follows must be blank.
func number(b []byte) (uint64, bool) {
	v, rest, ok := digits(b)
	return v, ok && len(bytes.TrimSpace(rest)) == 0
}

func digits(b []byte) (v uint64, rest []byte, ok bool) {
	i := 0
	for ; i < len(b) && '0' <= b[i] && b[i] <= '9'; i++ {
		d := uint64(b[i] - '0')
		if v > (math.MaxUint64-d)/10 {
			return 0, b, false
		}
		v = v*10 + d
	}
	return v, b[i:], i > 0
}

// parseClock finds the clock in MHz in pp_dpm_sclk, one state a line, the present
// one with a star: "1: 1700Mhz *".
func parseClock(b []byte) (uint64, bool) {
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte{'\n'})
		if line = bytes.TrimSpace(line); bytes.HasSuffix(line, []byte{'*'}) && bytes.IndexByte(line, ':') >= 0 {
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
	mhz, unit, ok := digits(bytes.TrimLeft(state, " "))
	return mhz, ok && len(unit) >= 3 && bytes.EqualFold(unit[:3], []byte("mhz"))
}
