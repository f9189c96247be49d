package procfile

import (
	"bytes"
	"iter"
	"math"
	"strconv"
	"strings"
)

// Line cuts the first line off b.
func Line(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// Lines yields the lines of b.
func Lines(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			var line []byte
			line, b = Line(b)
			if !yield(line) {
				return
			}
		}
	}
}

// Field cuts the first word off a line; it is empty at the end of the line.
func Field(line []byte) (word, rest []byte) {
	i := 0
	for i < len(line) && isBlank(line[i]) {
		i++
	}
	j := i
	for j < len(line) && !isBlank(line[j]) {
		j++
	}
	return line[i:j], line[j:]
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// Skip drops n words of a line.
func Skip(line []byte, n int) []byte {
	for range n {
		_, line = Field(line)
	}
	return line
}

// Uint parses a word of decimal digits; ok is false for anything else and for a
// value of more than 64 bits.
func Uint(word []byte) (v uint64, ok bool) {
	for _, c := range word {
		d := uint64(c - '0')
		if d > 9 || v > (math.MaxUint64-d)/10 {
			return 0, false
		}
		v = v*10 + d
	}
	return v, len(word) > 0
}

// Uints parses as many decimal words of a line as dst holds.
func Uints(line []byte, dst []uint64) (rest []byte, ok bool) {
	var word []byte
	for i := range dst {
		word, line = Field(line)
		dst[i], ok = Uint(word)
		if !ok {
			return line, false
		}
	}
	return line, true
}

// Pair cuts the first line off b, which is "key value". ok is false if the second
// word is no number.
func Pair(b []byte) (key []byte, v uint64, ok bool, rest []byte) {
	line, rest := Line(b)
	key, line = Field(line)
	value, _ := Field(line)
	v, ok = Uint(value)
	return key, v, ok, rest
}

// Trim drops blanks, line ends and zero bytes at both ends.
func Trim(b []byte) []byte {
	return bytes.TrimFunc(b, func(c rune) bool { return c <= ' ' })
}

// Range parses one part of a list such as "0-3,8": two numbers of at most so many bits with a dash between them. A
// single number is first and last.
func Range(part string, bits int) (first, last uint64, ok bool) {
	from, to, isRange := strings.Cut(part, "-")
	if !isRange {
		to = from
	}
	first, err1 := strconv.ParseUint(from, 10, bits)
	last, err2 := strconv.ParseUint(to, 10, bits)
	return first, last, err1 == nil && err2 == nil && first <= last
}

// CPUs parses a list of CPUs such as "0-3,8", which ascends; an empty text is an empty list.
func CPUs(text string) (cpus []int, ok bool) {
	if text == "" {
		return nil, true
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := Range(part, 16)
		isAscending := len(cpus) == 0 || int(first) > cpus[len(cpus)-1]
		if !isRange || !isAscending {
			return nil, false
		}
		for n := first; n <= last; n++ {
			cpus = append(cpus, int(n))
		}
	}
	return cpus, true
}
