package resourcetracker

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"

	"github.com/resource-tracker/rt"
)

// VersionKey is the JSON key of the version of the program that wrote a sample.
const VersionKey = "resource-tracker-version"

// AppendJSON appends one sample as one JSON object and a newline: the fields of
// section 6.1 under their names there, and the version. A number that is not
// finite is written as null.
func AppendJSON(dst []byte, s *rt.Sample, version string) []byte {
	dst = appendValue(dst, reflect.ValueOf(*s))
	return With(append(dst, '\n'), VersionKey, appendJSON(nil, version))
}

// With adds a member to a line of AppendJSON. The specification does not have it, and its readers
// ignore it. value is JSON.
func With(line []byte, name string, value []byte) []byte {
	line = appendJSON(append(line[:len(line)-len("}\n")], ','), name)
	return append(append(append(line, ':'), value...), '}', '\n')
}

// WithInterval adds actual_interval_ms, the time since the previous sample, which other trackers have
// in all samples but the first.
func WithInterval(line []byte, seconds float64) []byte {
	return With(line, "actual_interval_ms", strconv.AppendInt(nil, max(0, int64(math.Round(seconds*1e3))), 10))
}

// appendValue appends a part of a sample: a struct's fields under their tags, an element of a list, a number or a text.
func appendValue(dst []byte, v reflect.Value) []byte {
	_, isOptional := v.Interface().(json.Marshaler) // an rt.Opt
	switch {
	case v.Kind() == reflect.Slice:
		dst = append(dst, '[')
		for i := range v.Len() {
			dst = appendValue(comma(dst, i), v.Index(i))
		}
		return append(dst, ']')
	case v.Kind() == reflect.Struct && !isOptional:
		dst = append(dst, '{')
		n := 0
		for field, value := range v.Fields() {
			if name := field.Tag.Get("json"); name != "-" {
				dst = append(appendJSON(comma(dst, n), name), ':')
				dst = appendValue(dst, value)
				n++
			}
		}
		return append(dst, '}')
	case v.Kind() == reflect.Map && v.IsNil():
		return append(dst, "{}"...)
	}
	return appendJSON(dst, v.Interface())
}

// comma separates element i from the one before it.
func comma(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return dst
}

// appendJSON appends a number, a text or a map of texts. It appends null for a number that is not finite.
func appendJSON(dst []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return append(dst, "null"...)
	}
	return append(dst, text...)
}
