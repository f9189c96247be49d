package sys

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strconv"
)

// ticksPerSecond is USER_HZ, which is always 100 in the interface of the kernel.
const ticksPerSecond = 100

// FS is a mounted procfs.
type FS struct{ root string }

// NewFS returns the procfs that is mounted at root, usually /proc.
func NewFS(root string) FS { return FS{root} }

// read returns a file, nil if it cannot be read: there is nothing to record then.
func (fs FS) read(name ...string) []byte {
	text, err := os.ReadFile(filepath.Join(append([]string{fs.root}, name...)...))
	if err != nil {
		return nil
	}
	return text
}

// number returns the n-th of the words in units of 1/per, nil if there is none.
func number(words [][]byte, n int, per float64) *float64 {
	if n < 0 || n >= len(words) {
		return nil
	}
	v, err := strconv.ParseFloat(string(words[n]), 64)
	if err != nil {
		return nil
	}
	v /= per
	return &v
}

// in returns v in units of 1/per.
func in(v uint64, per float64) *float64 {
	f := float64(v) / per
	return &f
}

// table returns the numbers of lines "<key>: <n> ..." by key.
func table(text []byte) map[string][][]byte {
	out := map[string][][]byte{}
	for line := range bytes.Lines(text) {
		if key, rest, ok := bytes.Cut(line, []byte(":")); ok {
			out[string(bytes.TrimSpace(key))] = bytes.Fields(rest)
		}
	}
	return out
}

// sum adds the figures that were read, nil if there are none.
func sum(a, b *float64) *float64 {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	*a += *b
	return a
}
