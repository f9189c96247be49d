package sonar

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The digits of the compressed load. A number begins with one of initial, so that
// it needs no separator; the others follow it, the least significant first.
const (
	initial    = "(){}[]<>+-abcdefghijklmnopqrstuvwxyz!@#$%^&*_"
	subsequent = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ~|';:.?/`"
	base       = uint64(len(initial))
)

// AppendBase45 appends the numbers, one after the other.
func AppendBase45(dst []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		dst = append(dst, initial[n%base])
		for n /= base; n > 0; n /= base {
			dst = append(dst, subsequent[n%base])
		}
	}
	return dst
}

// DecodeBase45 reads what AppendBase45 wrote.
func DecodeBase45(text string) ([]uint64, error) {
	var out []uint64
	var unit uint64 // of the next digit; 0 where it is beyond 64 bits
	for i := range len(text) {
		if digit := strings.IndexByte(initial, text[i]); digit >= 0 {
			out = append(out, uint64(digit))
			unit = base
			continue
		}
		digit := strings.IndexByte(subsequent, text[i])
		if digit < 0 {
			return nil, fmt.Errorf("%q at place %d is no base-45 digit", text[i], i)
		}
		if len(out) == 0 {
			return nil, fmt.Errorf("%q begins no base-45 number", text[i])
		}
		last := &out[len(out)-1]
		isTooLong := unit == 0 || uint64(digit) > (math.MaxUint64-*last)/unit
		if digit > 0 && isTooLong {
			return nil, fmt.Errorf("the base-45 number that place %d is in has more than 64 bits", i)
		}
		*last += uint64(digit) * unit
		if unit > math.MaxUint64/base {
			unit = 0
		}
		unit *= base
	}
	return out, nil
}

// appendLoad appends the seconds of each CPU: the smallest of them, which is the
// base of the others, and what each has beyond it.
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
		return nil, errors.New("the load has a base and no CPU")
	}
	for i := range seconds {
		if seconds[i] > math.MaxUint64-low {
			return nil, fmt.Errorf("the seconds of CPU %d have more than 64 bits", i)
		}
		seconds[i] += low
	}
	return seconds, nil
}
