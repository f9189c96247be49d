package spool

import (
	"database/sql/driver"
	"fmt"
	"math"

	"github.com/resource-tracker/rt"
)

// sums are the running totals of the columns that are stored as differences, in
// microseconds, ticks, bytes or counts: the sum of a column is the last value that was read.
// Differences wrap, so that every uint64 is restored exactly. For the columns of fractions
// it holds the bits of the last value.
type sums [numCols]int64

// vector holds the values of one snapshot and which of them were read.
type vector struct {
	value sums
	ok    [numCols]bool
}

// load takes the scalar values of s. Nanoseconds are truncated to microseconds.
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
			v.value[colOpt+i] = -deltaColumns[colOpt+i].unit // -1 in the unit of the column
		} else {
			v.value[colOpt+i] = int64(n)
		}
		v.ok[colOpt+i] = ok
	}
	v.value[colReadBoot], v.ok[colReadBoot] = s.Node.ReadBoot/1000, s.Node.ReadBoot != 0
	for i, p := range realFields(s) {
		x, ok := p.Get()
		v.value[colNodeGPU+i], v.ok[colNodeGPU+i] = int64(math.Float64bits(x)), ok
	}
}

// realFields lists the figures that are fractions.
func realFields(s *rt.Snapshot) [numCols - numSums]*rt.Opt[float64] {
	return [...]*rt.Opt[float64]{rt.NodeGPUUsage.Field(&s.Node), rt.GPUUseUsage.Field(&s.GPU)}
}

// store sets the scalar values of s.
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
		case n == -deltaColumns[colOpt+i].unit:
			p.Set(rt.Unlimited)
		default:
			p.Set(uint64(n))
		}
	}
	s.Node.ReadBoot = 0
	if v.ok[colReadBoot] {
		s.Node.ReadBoot = v.value[colReadBoot] * 1000
	}
	for i, p := range realFields(s) {
		p.Clear()
		if v.ok[colNodeGPU+i] {
			p.Set(math.Float64frombits(uint64(v.value[colNodeGPU+i])))
		}
	}
}

// toUnit converts n to the unit of the column. A figure that is not a multiple of 1 KiB is
// stored as a fraction, which a float64 holds exactly.
func toUnit(n, unit int64) driver.Value {
	if unit == 1 {
		return n
	}
	if n%unit == 0 {
		return n / unit
	}
	return float64(n) / float64(unit)
}

// next advances the sums of some columns to v and stores the differences in args. It returns
// whether anything changed; was says which columns were read before.
func (t *sums) next(columns []int, v *vector, was *[numCols]bool, args []driver.NamedValue) (changed bool) {
	for n, i := range columns {
		isNew := v.ok[i] && v.value[i] != t[i]
		changed = changed || isNew || v.ok[i] != was[i]
		was[i] = v.ok[i]
		if !v.ok[i] {
			args[n].Value = nil
			continue
		}
		d := v.value[i] - t[i]
		t[i] = v.value[i]
		if i >= numSums {
			args[n].Value = math.Float64frombits(uint64(t[i]))
		} else {
			args[n].Value = toUnit(d, deltaColumns[i].unit)
		}
	}
	return changed
}

// add advances the sums of some columns by a row of differences and sets the values of v.
func (t *sums) add(columns []int, row []driver.Value, v *vector) error {
	for n, i := range columns {
		if err := t.addColumn(i, row[n]); err != nil {
			return err
		}
		v.ok[i], v.value[i] = row[n] != nil, t[i]
	}
	return nil
}

func (t *sums) addColumn(i int, value driver.Value) error {
	switch d := value.(type) {
	case nil:
		return nil
	case int64:
		if i < numSums {
			t[i] += d * deltaColumns[i].unit
			return nil
		}
		t[i] = int64(math.Float64bits(float64(d)))
	case float64:
		if i >= numSums {
			t[i] = int64(math.Float64bits(d))
			return nil
		}
		t[i] += int64(math.Round(d * float64(deltaColumns[i].unit)))
	default:
		return fmt.Errorf("column %s holds a %T, not a number", deltaColumns[i].name, value)
	}
	return nil
}
