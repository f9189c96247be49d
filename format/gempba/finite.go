package gempba

import (
	"bytes"
	"strings"
)

// finiteJSON replaces each bare nan and inf in the line by null, in all forms of C libraries: with a
// sign, in capitals, as "infinity", with a text in parentheses.
func finiteJSON(line []byte) []byte {
	var out []byte // nil until something is replaced
	done := 0
	for i := 0; i < len(line); {
		switch c := line[i]; {
		case c == '"':
			i = stringEnd(line, i)
		case isWord(line[i:]):
			end, ok := notFinite(line, i)
			if ok {
				out = append(append(out, line[done:i]...), "null"...)
				done = end
			}
			i = end
		case c >= '0' && c <= '9': // the e of an exponent is not a word
			for i < len(line) && isNumeric(line[i]) {
				i++
			}
		default:
			i++
		}
	}
	if out == nil {
		return line
	}
	return append(out, line[done:]...)
}

// isWord reports whether b begins with a letter, after a sign or without one.
func isWord(b []byte) bool {
	if b[0] == '-' || b[0] == '+' {
		b = b[1:]
	}
	return len(b) > 0 && isLetter(b[0])
}

// isNumeric reports whether c can be a part of a number with an exponent.
func isNumeric(c byte) bool { return isLetter(c) || strings.IndexByte("0123456789.+-", c) >= 0 }

// notFinite returns the end of the word at i, and whether the word is such a value.
func notFinite(line []byte, i int) (end int, ok bool) {
	word := i
	if line[word] == '-' || line[word] == '+' {
		word++
	}
	end = word
	for end < len(line) && isLetter(line[end]) {
		end++
	}
	name := bytes.ToLower(line[word:end])
	switch string(name) {
	case "inf", "infinity":
		return end, true
	case "nan":
		if end < len(line) && line[end] == '(' {
			if n := bytes.IndexByte(line[end:min(len(line), end+32)], ')'); n >= 0 {
				end += n + 1
			}
		}
		return end, true
	}
	return end, false
}

// stringEnd returns the end of the string that starts at i.
func stringEnd(line []byte, i int) int {
	for i++; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(line)
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
