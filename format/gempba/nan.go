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
		start := i
		switch c := line[i]; {
		case c == '"':
			i = stringEnd(line, i)
			continue
		case c == '-', c == '+':
			i++ // a word may follow
		case c >= '0' && c <= '9': // the e of an exponent is not a word
			i = wordEnd(line, i, "0123456789.+-")
			continue
		case !isLetter(c):
			i++
			continue
		}
		word := i
		i = wordEnd(line, i, "")
		name := bytes.ToLower(line[word:i])
		switch string(name) {
		case "inf", "infinity":
		case "nan":
			i += textEnd(line[i:])
		default:
			continue
		}
		out = append(append(out, line[done:start]...), "null"...)
		done = i
	}
	if out == nil {
		return line
	}
	return append(out, line[done:]...)
}

// wordEnd returns the end of the letters and the other characters from i on.
func wordEnd(line []byte, i int, others string) int {
	for ; i < len(line); i++ {
		if !isLetter(line[i]) && strings.IndexByte(others, line[i]) < 0 {
			break
		}
	}
	return i
}

// textEnd returns the length of the text in parentheses with which b begins, or 0.
func textEnd(b []byte) int {
	if !bytes.HasPrefix(b, []byte("(")) {
		return 0
	}
	return bytes.IndexByte(b[:min(len(b), 32)], ')') + 1
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
