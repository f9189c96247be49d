package rowcodec

import (
	"math/bits"
	"slices"
)

// number is the adaptive model of a series of integers: the number of significant bits, the sign
// and the two bits after the highest one. The other bits of a number are noise and are stored as
// they are.
type number struct {
	length [128]bit // a tree
	sign   [65]bit
	second [65]bit
	third  [65][2]bit
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

func (m *number) encode(e *encoder, v int64) {
	abs := magnitude(v)
	n := bits.Len64(abs)
	encodeTree(e, m.length[:], n)
	if n > 0 {
		e.bit(&m.sign[n], v < 0)
	}
	if n < 2 {
		return
	}
	second := abs >> (n - 2) & 1
	e.bit(&m.second[n], second == 1)
	if n < 3 {
		return
	}
	e.bit(&m.third[n][second], abs>>(n-3)&1 == 1)
	e.raw(abs, n-3)
}

func (m *number) decode(d *decoder) int64 {
	n := min(decodeTree(d, m.length[:]), 64) // more only if damaged
	if n == 0 {
		return 0
	}
	negative := d.bit(&m.sign[n])
	abs := uint64(1)
	if n > 1 {
		second := one(d.bit(&m.second[n]))
		abs = abs<<1 | second
		if n > 2 {
			abs = abs<<1 | one(d.bit(&m.third[n][second]))
			abs = abs<<(n-3) | d.raw(n-3)
		}
	}
	if negative {
		return -int64(abs)
	}
	return int64(abs)
}

func one(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// encodeTree encodes a symbol below len(tree), which is a power of 2. Each node of the tree is a
// decision.
func encodeTree(e *encoder, tree []bit, symbol int) {
	node := 1
	for mask := len(tree) >> 1; mask > 0; mask >>= 1 {
		isSet := symbol&mask != 0
		e.bit(&tree[node], isSet)
		node = node<<1 | int(one(isSet))
	}
}

func decodeTree(d *decoder, tree []bit) int {
	node := 1
	for node < len(tree) {
		node = node<<1 | int(one(d.bit(&tree[node])))
	}
	return node - len(tree)
}

// series is a list of integers, of several interleaved series.
type series struct {
	values []int64
	of     []int // the series of each value
	count  int   // how many series there are
}

// numModels is the number of models of series that differ.
const numModels = 16

// models selects the model of each value. Series that differ, such as those of cores that are idle
// or busy, share the models for a similar previous value.
type models struct {
	list []number
	last []uint8 // of each series
}

func (s *series) models() models {
	if s.count < 2 {
		return models{list: make([]number, 1)}
	}
	return models{make([]number, numModels), make([]uint8, s.count)}
}

func (m *models) of(series int) *number {
	if m.last == nil {
		return &m.list[0]
	}
	return &m.list[m.last[series]]
}

func (m *models) update(series int, v int64) {
	if m.last != nil {
		m.last[series] = uint8(min(bits.Len64(magnitude(v)), numModels-1))
	}
}

// differences returns the differences of the values from the previous value of their series.
func (s *series) differences() []int64 {
	last := make([]int64, s.count)
	out := make([]int64, len(s.values))
	for i, v := range s.values {
		k := s.of[i]
		out[i] = v - last[k]
		last[k] = v
	}
	return out
}

// means are the running means of series. A counter that grows evenly is predicted from them.
type means []int64

// inertia is the weight of the earlier values in a mean.
const inertia = 4

// residual returns v minus the mean of its series, and updates the mean.
func (m means) residual(series int, v int64) int64 {
	r := v - m[series]
	m[series] += r / inertia
	return r
}

// value is the reverse of residual.
func (m means) value(series int, r int64) int64 {
	v := r + m[series]
	m[series] += r / inertia
	return v
}

// weight is about the number of bits that the values need, with their signs.
func weight(values []int64) (n int) {
	signs := [2]int{}
	for _, v := range values {
		n += bits.Len64(magnitude(v))
		signs[one(v < 0)] += int(min(magnitude(v), 1))
	}
	return n + 2*min(signs[0], signs[1])
}

// unitOf returns the greatest common divisor, 1 for zeros.
func unitOf(values []int64) uint64 {
	var unit uint64
	for _, v := range values {
		for a, b := unit, magnitude(v); ; a, b = b, a%b {
			if b == 0 {
				unit = a
				break
			}
		}
	}
	return max(unit, 1)
}

// The modes of a series, which can be combined.
const (
	fromPrevious = 1 << iota // the differences of the values are coded
	fromMean                 // what is coded is the difference from its running mean
)

// scaled returns the values, or their differences, divided by their unit.
func (s *series) scaled(mode int64) (values []int64, unit uint64) {
	values = slices.Clone(s.values)
	if mode&fromPrevious != 0 {
		values = s.differences()
	}
	unit = unitOf(values)
	for i, v := range values {
		values[i] = int64(magnitude(v) / unit)
		if v < 0 {
			values[i] = -values[i]
		}
	}
	if mode&fromMean != 0 {
		means := make(means, s.count)
		for i, v := range values {
			values[i] = means.residual(s.of[i], v)
		}
	}
	return values, unit
}

func (s *series) encode(e *encoder, head *number) {
	mode := int64(0)
	values, unit := s.scaled(mode)
	for _, other := range []int64{fromPrevious, fromMean, fromPrevious | fromMean} {
		if v, u := s.scaled(other); weight(v) < weight(values) {
			mode, values, unit = other, v, u
		}
	}
	head.encode(e, mode)
	head.encode(e, int64(unit))
	models := s.models()
	for i, v := range values {
		models.of(s.of[i]).encode(e, v)
		models.update(s.of[i], v)
	}
}

// decode decodes as many values as there are. It stops early if the input is damaged.
func (s *series) decode(d *decoder, head *number) {
	mode := head.decode(d)
	unit := head.decode(d)
	models := s.models()
	last, means := make([]int64, s.count), make(means, s.count)
	for i := range s.values {
		if d.isOver() {
			return
		}
		k := s.of[i]
		v := models.of(k).decode(d)
		models.update(k, v)
		if mode&fromMean != 0 {
			v = means.value(k, v)
		}
		v *= unit
		if mode&fromPrevious != 0 {
			v += last[k]
			last[k] = v
		}
		s.values[i] = v
	}
}
