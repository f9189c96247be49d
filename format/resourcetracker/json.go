package resourcetracker

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/resource-tracker/rt"
)

// VersionKey is the JSON key of the version of the program that wrote a sample.
const VersionKey = "resource-tracker-version"

// AppendJSON appends one sample as one JSON object and a newline: the fields of
// section 6.1 under their names there, and the version. A number that is not
// finite is written as null.
func AppendJSON(dst []byte, s *rt.Sample, version string) []byte {
	return appendSample(dst, s, version)
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

// appendSample appends a sample as a line with the version.
func appendSample(dst []byte, sample any, version string) []byte {
	dst = append(appendJSON(dst, sample), '\n')
	return With(dst, VersionKey, appendJSON(nil, version))
}

func appendJSON(dst []byte, v any) []byte {
	text, _ := json.Marshal(v) // never fails: an rt.Opt that is not finite is null
	return append(dst, text...)
}
