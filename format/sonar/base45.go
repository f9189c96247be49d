package sonar

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The digits of the compressed load. A number starts with one of initial and needs no separator;
// the others follow, the least significant first.
const (
	initial    = "(){}[]<>+-abcdefghijklmnopqrstuvwxyz!@#$%^&*_"
	subsequent = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ~|';:.?/`"
	base       = uint64(len(initial))
)

// AppendBase45 appends the numbers without separators.
func AppendBase45(dst []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		dst = append(dst, initial[n%base])
		for n /= base; n > 0; n /= base {
			dst = append(dst, subsequent[n%base])
		}
	}
	return dst
}

// DecodeBase45 is the reverse of AppendBase45.
func DecodeBase45(text string) ([]uint64, error) {
	var out []uint64
	var unit uint64 // of the next digit; 0 beyond 64 bits
	for i := range len(text) {
		if digit := strings.IndexByte(initial, text[i]); digit >= 0 {
			out = append(out, uint64(digit))
			unit = base
			continue
		}
		digit := strings.IndexByte(subsequent, text[i])
		if digit < 0 {
			return nil, fmt.Errorf("%q at position %d is not a base-45 digit", text[i], i)
		}
		if len(out) == 0 {
			return nil, fmt.Errorf("%q does not start a base-45 number", text[i])
		}
		last := &out[len(out)-1]
		isTooLong := unit == 0 || uint64(digit) > (math.MaxUint64-*last)/unit
		if digit > 0 && isTooLong {
			return nil, fmt.Errorf("the base-45 number at position %d has more than 64 bits", i)
		}
		*last += uint64(digit) * unit
		if unit > math.MaxUint64/base {
			unit = 0
		}
		unit *= base
	}
	return out, nil
}

// appendLoad appends the seconds of each CPU: the smallest number, and the difference of each
// CPU from it.
func appendLoad(dst []byte, seconds []uint64) []byte {
	low := slices.Min(seconds)
	dst = AppendBase45(dst, low)
	for _, s := range seconds {
		dst = AppendBase45(dst, s-low)
	}
	return dst
}

func decodeLoad(text string) ([]uint64, error) {
	numbers, err := DecodeBase45(text)
	if err != nil || len(numbers) == 0 {
		return nil, err
	}
	low, seconds := numbers[0], numbers[1:]
	if len(seconds) == 0 {
		return nil, errors.New("the load has a base and no CPUs")
	}
	for i := range seconds {
		if seconds[i] > math.MaxUint64-low {
			return nil, fmt.Errorf("the seconds of CPU %d have more than 64 bits", i)
		}
		seconds[i] += low
	}
	return seconds, nil
}
