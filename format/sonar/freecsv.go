package sonar

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Field is one name=value of free CSV.
type Field struct{ Name, Text string }

// maxFields bounds the fields of one line: no record has a tenth of that.
const maxFields = 4096

// appendElement appends a field, in quotes if it has a comma or a quote. It quotes a whole field, as
// readers with an ordinary CSV parser require: "name=a,b".
func appendElement(dst []byte, text string) []byte {
	if !strings.ContainsAny(text, `",`) {
		return append(dst, text...)
	}
	return append(append(append(dst, '"'), strings.ReplaceAll(text, `"`, `""`)...), '"')
}

// SplitFree parses one line of free CSV. A field can be quoted as a whole, or only its value, as in
// name="a,b". A field without a name has an empty Name. A nested list is in Text, for another
// SplitFree.
func SplitFree(line string) ([]Field, error) {
	texts, err := split(line)
	if err != nil {
		return nil, err
	}
	return named(texts), nil
}

func named(texts []string) []Field {
	fields := make([]Field, len(texts))
	for i, text := range texts {
		if name, value, ok := strings.Cut(text, "="); ok {
			fields[i] = Field{Name: name, Text: value}
		} else {
			fields[i].Text = text
		}
	}
	return fields
}

// split parses the fields of one line of CSV without their quotes.
func split(line string) ([]string, error) {
	var texts []string
	for rest := line; ; {
		text, tail, more, err := cutField(rest)
		if err != nil {
			return nil, fmt.Errorf("in column %d: %w", len(line)-len(rest)+1, err)
		}
		texts = append(texts, text)
		if len(texts) > maxFields {
			return nil, fmt.Errorf("more than %d fields", maxFields)
		}
		if !more {
			return texts, nil
		}
		rest = tail
	}
}

var (
	errBareQuote = errors.New("a quote inside an unquoted field")
	errOpenQuote = errors.New("an unterminated quoted field")
)

// cutField splits the first field off a line, without its quotes.
func cutField(s string) (text, rest string, more bool, err error) {
	at := strings.IndexAny(s, `",`)
	switch {
	case at < 0:
		return s, "", false, nil
	case s[at] == ',':
		return s[:at], s[at+1:], true, nil
	case at > 0 && strings.IndexByte(s[:at], '=') != at-1:
		return "", "", false, errBareQuote
	}
	var b strings.Builder
	b.WriteString(s[:at])
	for s = s[at+1:]; ; {
		end := strings.IndexByte(s, '"')
		if end < 0 {
			return "", "", false, errOpenQuote
		}
		b.WriteString(s[:end])
		s = s[end+1:]
		switch {
		case s == "":
			return b.String(), "", false, nil
		case s[0] == ',':
			return b.String(), s[1:], true, nil
		case s[0] != '"':
			return "", "", false, errors.New("text after a quoted field")
		}
		b.WriteByte('"')
		s = s[1:]
	}
}

// clean replaces what the formats do not allow: invalid UTF-8 and control characters. The name of a
// process can have any bytes.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if control(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

func control(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }

// readable returns an error for a line with characters that the formats do not allow.
func readable(line []byte) error {
	if i := bytes.IndexFunc(line, control); i >= 0 {
		return fmt.Errorf("in column %d: a control character", i+1)
	}
	if !utf8.Valid(line) {
		return errors.New("not UTF-8")
	}
	return nil
}
