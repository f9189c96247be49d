package rowcodec

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// numbers is a list of integers in the order of their series.
type numbers struct {
	values []int64
	series []int
}

func (l *numbers) add(v int64, series int) {
	l.values, l.series = append(l.values, v), append(l.series, series)
}

// maxOrder is how many times a list is replaced by its differences: twice if it grows evenly.
const maxOrder = 2

// differences replaces each value by its difference from the previous one of its series.
func (l *numbers) differences() numbers {
	out := make([]int64, len(l.values))
	for i, v := range l.values {
		if i > 0 && l.series[i] == l.series[i-1] {
			v -= l.values[i-1]
		}
		out[i] = v
	}
	return numbers{out, l.series}
}

// sum is the reverse of differences.
func (l *numbers) sum() {
	for i := range l.values {
		if i > 0 && l.series[i] == l.series[i-1] {
			l.values[i] += l.values[i-1]
		}
	}
}

// unit returns the greatest common divisor, 1 for zeros.
func (l *numbers) unit() uint64 {
	var unit uint64
	for _, v := range l.values {
		for v := magnitude(v); v != 0; {
			unit, v = v, unit%v
		}
	}
	return max(unit, 1)
}

// weight is about the number of bits of the values in the unit.
func (l *numbers) weight(unit uint64) (n int) {
	for _, v := range l.values {
		n += bits.Len64(magnitude(v) / unit)
	}
	return n
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

// zigzag makes an unsigned number of v/unit: small if v is small.
func zigzag(v int64, unit uint64) uint64 {
	abs := int64(magnitude(v) / unit)
	if v < 0 {
		abs = -abs
	}
	return uint64(abs)<<1 ^ uint64(abs>>63)
}

func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// append encodes the list, unless it is empty. It writes how many times differences replaced the
// values, their unit, and the width of a value in bytes. Then it writes the highest byte of each
// value, the next byte of each, and so on.
func (l *numbers) append(dst []byte) []byte {
	if len(l.values) == 0 {
		return dst
	}
	best, order, unit := *l, 0, l.unit()
	for n, d := 1, *l; n <= maxOrder; n++ {
		d = d.differences()
		if u := d.unit(); d.weight(u) < best.weight(unit) {
			best, order, unit = d, n, u
		}
	}
	width := 0
	for _, v := range best.values {
		width = max(width, (bits.Len64(zigzag(v, unit))+7)/8)
	}
	dst = binary.AppendUvarint(append(dst, byte(order)), unit)
	dst = append(dst, byte(width))
	for shift := 8 * (width - 1); shift >= 0; shift -= 8 {
		for _, v := range best.values {
			dst = append(dst, byte(zigzag(v, unit)>>shift))
		}
	}
	return dst
}

// read is the reverse of append. It sets as many values as were added.
func (l *numbers) read(in *input) error {
	if len(l.values) == 0 {
		return nil
	}
	order, err := in.byte()
	if err != nil {
		return err
	}
	unit, n := binary.Uvarint(in.rest)
	if n <= 0 {
		return errCut
	}
	in.rest = in.rest[n:]
	width, err := in.byte()
	if err != nil {
		return err
	}
	if order > maxOrder || width > 8 {
		return fmt.Errorf("%w: its numbers have %d bytes and %d differences", ErrBlock, width, order)
	}
	for range width {
		plane, err := in.take(int64(len(l.values)))
		if err != nil {
			return err
		}
		for i, b := range plane {
			l.values[i] = l.values[i]<<8 | int64(b)
		}
	}
	for i, v := range l.values {
		l.values[i] = unzigzag(uint64(v)) * int64(unit)
	}
	for range order {
		l.sum()
	}
	return nil
}

// input is what is left of a block.
type input struct{ rest []byte }

var errCut = fmt.Errorf("%w: it is cut", ErrBlock)

func (in *input) take(n int64) ([]byte, error) {
	if n < 0 || n > int64(len(in.rest)) {
		return nil, errCut
	}
	taken := in.rest[:n]
	in.rest = in.rest[n:]
	return taken, nil
}

func (in *input) byte() (byte, error) {
	b, err := in.take(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

func (in *input) varint() (int64, error) {
	v, n := binary.Varint(in.rest)
	if n <= 0 {
		return 0, errCut
	}
	in.rest = in.rest[n:]
	return v, nil
}
