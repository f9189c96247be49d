package gempba

import (
	"encoding/json"
	"regexp"
	"sync"
)

// notFinite matches a string, or a bare nan or inf in the forms of C libraries: "-nan", "INFINITY", "nan(0x1)".
var notFinite = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[-+]?\b(?i:nan\([^()"]*\)|(?:nan|inf|infinity)\b)`)
})

// withoutNaN replaces each bare nan and inf in the line by null.
func withoutNaN(line []byte) []byte {
	if json.Valid(line) {
		return line
	}
	return notFinite().ReplaceAllFunc(line, func(found []byte) []byte {
		if found[0] == '"' {
			return found
		}
		return []byte("null")
	})
}
