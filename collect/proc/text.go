package proc

import (
	"bytes"
	"math"
)

// line cuts the first line off b.
func line(b []byte) (first, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// field cuts the first word off b; it is empty at the end of the line.
func field(b []byte) (word, rest []byte) {
	i := 0
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	j := i
	for j < len(b) && b[j] != ' ' && b[j] != '\t' {
		j++
	}
	return b[i:j], b[j:]
}

// skip drops n words of b.
func skip(b []byte, n int) []byte {
	for range n {
		_, b = field(b)
	}
	return b
}

// number reads a word of digits; not ok for anything else or beyond 64 bits.
func number(word []byte) (v uint64, ok bool) {
	for _, c := range word {
		if c < '0' || c > '9' || v > (math.MaxUint64-uint64(c-'0'))/10 {
			return 0, false
		}
		v = v*10 + uint64(c-'0')
	}
	return v, len(word) > 0
}

// numbers reads as many decimal words as dst holds.
func numbers(b []byte, dst []uint64) (rest []byte, ok bool) {
	var word []byte
	for i := range dst {
		word, b = field(b)
		if dst[i], ok = number(word); !ok {
			return b, false
		}
	}
	return b, true
}

// trim drops blanks, line ends and NULs at both ends, without a copy.
func trim(b []byte) []byte {
	blank := func(c byte) bool { return c <= ' ' }
	for len(b) > 0 && blank(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && blank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}
