package resourcetracker

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/resource-tracker/rt"
)

// VersionKey is the JSON key of the version of the program that wrote a sample.
const VersionKey = "resource-tracker-version"

// AppendJSON appends one sample as one JSON object and a newline: the fields of
// section 6.1 under their names there, and the version. A number that is not
// finite is written as null.
func AppendJSON(dst []byte, s *rt.Sample, version string) []byte {
	dst = appendValue(dst, reflect.ValueOf(s).Elem())
	return With(append(dst, '\n'), VersionKey, appendString(nil, version))
}

// With adds a member to a line of AppendJSON. The specification does not have it, and its readers
// ignore it. value is JSON.
func With(line []byte, name string, value []byte) []byte {
	line = appendString(append(line[:len(line)-len("}\n")], ','), name)
	return append(append(append(line, ':'), value...), '}', '\n')
}

// WithInterval adds actual_interval_ms, the time since the previous sample, which other trackers have
// in all samples but the first.
func WithInterval(line []byte, seconds float64) []byte {
	return With(line, "actual_interval_ms", strconv.AppendInt(nil, max(0, int64(math.Round(seconds*1e3))), 10))
}

// appendValue appends an addressable part of a sample: a struct's fields under their tags, an element of a list, a
// number or a text.
func appendValue(dst []byte, v reflect.Value) []byte {
	switch p := v.Addr().Interface().(type) {
	case *string:
		return appendString(dst, *p)
	case *int64:
		return appendInt(dst, *p)
	case *uint64:
		return appendUint(dst, *p)
	case *float64:
		return appendFloat(dst, *p)
	case *rt.Opt[string]:
		return optional(dst, *p, appendString)
	case *rt.Opt[int64]:
		return optional(dst, *p, appendInt)
	case *rt.Opt[uint64]:
		return optional(dst, *p, appendUint)
	case *rt.Opt[float64]:
		return optional(dst, *p, appendFloat)
	case *map[string]string:
		dst = append(dst, '{')
		for i, k := range slices.Sorted(maps.Keys(*p)) {
			dst = append(appendString(comma(dst, i), k), ':')
			dst = appendString(dst, (*p)[k])
		}
		return append(dst, '}')
	}
	if v.Kind() == reflect.Slice {
		dst = append(dst, '[')
		for i := range v.Len() {
			dst = appendValue(comma(dst, i), v.Index(i))
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	for i, key := range keysOf(v.Type()) {
		if key != `"-":` {
			dst = appendValue(append(comma(dst, i), key...), v.Field(i))
		}
	}
	return append(dst, '}')
}

var keys sync.Map // by type of a struct: the names of its fields, each in quotes with a colon

func keysOf(t reflect.Type) []string {
	if known, ok := keys.Load(t); ok {
		return known.([]string)
	}
	list := make([]string, t.NumField())
	for i := range list {
		list[i] = `"` + t.Field(i).Tag.Get("json") + `":`
	}
	keys.Store(t, list)
	return list
}

// comma separates element i from the one before it.
func comma(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return dst
}

func optional[T any](dst []byte, o rt.Opt[T], one func([]byte, T) []byte) []byte {
	if v, ok := o.Get(); ok {
		return one(dst, v)
	}
	return append(dst, "null"...)
}

func appendInt(dst []byte, v int64) []byte { return strconv.AppendInt(dst, v, 10) }

func appendUint(dst []byte, v uint64) []byte { return strconv.AppendUint(dst, v, 10) }

func appendFloat(dst []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(dst, "null"...)
	}
	format := byte('f')
	abs := math.Abs(v)
	isPlain := abs >= 1e-6 && abs < 1e21
	if abs != 0 && !isPlain {
		format = 'e'
	}
	return strconv.AppendFloat(dst, v, format, -1, 64)
}

// appendString appends a JSON string. Invalid UTF-8 becomes U+FFFD: names of mount points and interfaces can
// have any bytes.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ' || r == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
