// Package slurm has what the packages below it share: Slurm's notations and the
// metadata of a job.
//
// They rely on what was measured on 22.05 and read in the sources up to 26.05. Only
// package accounting runs commands of Slurm: sacct and squeue.
package slurm

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxValue limits a value that Slurm itself set, in bytes. Node lists are the longest;
// a work directory has at most 4096.
const MaxValue = 64 << 10

// Printable reports whether s can be stored: it is not empty, has at most limit bytes, and is UTF-8
// without control characters. Output replaces further characters, see printable.Text.
func Printable(s string, limit int) bool {
	return s != "" && len(s) <= limit && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// ParseExit parses Slurm's "code:signal": an exit code of 0..255 and a signal of 0..127.
func ParseExit(text string) (code, signal int64, ok bool) {
	c, s, found := strings.Cut(text, ":")
	code, err1 := strconv.ParseInt(c, 10, 32)
	signal, err2 := strconv.ParseInt(s, 10, 32)
	if !found || err1 != nil || err2 != nil || code < 0 || code > 255 || signal < 0 || signal > 127 {
		return 0, 0, false
	}
	return code, signal, true
}

// IsSLUID reports whether s has the form of a SLUID: "s" and 13 digits of Crockford's base 32. Its
// digits leave out I, L, O and U.
func IsSLUID(s string) bool {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZabcdefghjkmnpqrstvwxyz"
	return len(s) == 14 && s[0] == 's' && strings.Trim(s[1:], digits) == ""
}
