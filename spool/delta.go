package spool

import (
	"database/sql/driver"
	"fmt"
	"math"

	"github.com/resource-tracker/rt"
)

// sums are the running totals of the columns that are stored as differences, in
// microseconds, ticks, bytes or counts. The last value that was read of a column
// is its sum. Differences wrap, so that every uint64 comes back as it was.
type sums [numCols]int64

// vector holds the values of one snapshot and which of them were read.
type vector struct {
	value sums
	ok    [numCols]bool
}

// load takes the scalar values of s. Nanoseconds are cut to microseconds.
func (v *vector) load(s *rt.Snapshot) {
	v.value[colBoot], v.ok[colBoot] = s.Boot/1000, true
	v.value[colClock], v.ok[colClock] = s.Wall/1000-s.Boot/1000, true
	times, ok := s.Node.CPU.Get()
	for i, p := range tickFields(&times) {
		v.value[colTicks+i], v.ok[colTicks+i] = int64(*p), ok
	}
	for i, p := range optFields(s) {
		n, ok := p.Get()
		if n == rt.Unlimited {
			v.value[colOpt+i] = -deltaUnit[colOpt+i] // -1 in the unit of the column
		} else {
			v.value[colOpt+i] = int64(n)
		}
		v.ok[colOpt+i] = ok
	}
}

// store sets the scalar values of s that are differences.
func (v *vector) store(s *rt.Snapshot) {
	s.Boot, s.Wall = v.value[colBoot]*1000, (v.value[colBoot]+v.value[colClock])*1000
	s.Node.CPU.Clear()
	if v.ok[colTicks] {
		var times rt.CPUTimes
		for i, p := range tickFields(&times) {
			*p = uint64(v.value[colTicks+i])
		}
		s.Node.CPU.Set(times)
	}
	for i, p := range optFields(s) {
		switch n := v.value[colOpt+i]; {
		case !v.ok[colOpt+i]:
			p.Clear()
		case n == -deltaUnit[colOpt+i]:
			p.Set(rt.Unlimited)
		default:
			p.Set(uint64(n))
		}
	}
}

// toUnit gives n as the column stores it. A figure that is no multiple of 1 KiB is
// a fraction of one, which a float64 holds exactly.
func toUnit(n, unit int64) driver.Value {
	if unit == 1 {
		return n
	}
	if n%unit == 0 {
		return n / unit
	}
	return float64(n) / float64(unit)
}

// fromUnit is the reverse of toUnit.
func fromUnit(v driver.Value, unit int64) (int64, error) {
	switch n := v.(type) {
	case int64:
		return n * unit, nil
	case float64:
		return int64(math.Round(n * float64(unit))), nil
	}
	return 0, fmt.Errorf("%T where a number was expected", v)
}

// next advances the sums to v and puts the differences into the parameters.
func (t *sums) next(v *vector, args []driver.NamedValue) {
	for i := range t {
		if !v.ok[i] {
			args[i].Value = nil
			continue
		}
		d := v.value[i] - t[i]
		t[i] = v.value[i]
		args[i].Value = toUnit(d, deltaUnit[i])
	}
}

// add advances the sums by a row of differences and leaves the values in v.
func (t *sums) add(row []driver.Value, v *vector) error {
	for i := range t {
		switch d := row[i].(type) {
		case nil:
			v.ok[i] = false
			continue
		case int64:
			t[i] += d * deltaUnit[i]
		default:
			n, err := fromUnit(d, deltaUnit[i])
			if err != nil {
				return fmt.Errorf("column %s: %w", deltaColumns[i], err)
			}
			t[i] += n
		}
		v.ok[i], v.value[i] = true, t[i]
	}
	if !v.ok[colBoot] || !v.ok[colClock] {
		return fmt.Errorf("a snapshot has no time")
	}
	return nil
}
