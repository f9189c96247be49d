package sonar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Older versions are read and not written. The tests make their lines of records here.

// minorOf returns 7 of version 0.7.0; a later major version has a high one.
func minorOf(v string) int {
	words := strings.Split(v, ".")
	major, err1 := strconv.Atoi(words[0])
	minor, err2 := strconv.Atoi(words[1])
	if err1 != nil || err2 != nil {
		panic("no version: " + v)
	}
	return major*1000 + minor
}

// columnsOf07 are the fields of 0.7 in the order of the example on the page.
var columnsOf07 = [...]string{
	"v", "time", "host", "cores", "user", "job", "pid", "cmd", "cpu%", "cpukib", "gpus", "gpu%", "gpumem%", "gpukib",
	"cputime_sec", "rolledup",
}

// isIn reports whether a version, which is 0.8 or later, has a field.
func isIn(minor int, name string) bool {
	switch name {
	case "cores", "memtotalkib":
		return minor < 10
	case "ppid":
		return minor >= 11
	case "load":
		return minor >= 12
	case "epoch", "gpuinfo":
		return minor >= 13
	}
	return true
}

// appendAs appends the record in the form of its version.
func appendAs(dst []byte, s *Sample) ([]byte, error) {
	minor := minorOf(s.Version)
	switch {
	case minor < 7:
		for i, name := range unnamed {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendElement(dst, textAs06(s, name))
		}
	case minor < 8: // all fields, but no pid and no rolledup that is 0
		for i, name := range columnsOf07 {
			text := textOf(s, name)
			isOptional := name == "pid" || name == "rolledup"
			if isOptional && text == "0" {
				continue
			}
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendElement(dst, name+"="+text)
		}
	case minor < 13:
		e := encoder{dst: dst, start: len(dst)}
		for _, c := range sampleColumns {
			if isIn(minor, c.name) {
				e.putField(c.name, c.at(s))
			}
		}
		dst = e.dst
	default:
		return s.AppendCSV(dst)
	}
	return append(dst, '\n'), nil
}

func textOf(s *Sample, name string) string {
	switch p := s.at(name).(type) {
	case *time.Time:
		return formatTime(*p)
	case *float64:
		return formatFloat(*p)
	case *GPUSet:
		return p.String()
	case *string:
		return *p
	default:
		return fmt.Sprint(*p.(*uint64))
	}
}

func textAs06(s *Sample, name string) string {
	switch p := s.at(name).(type) {
	case *time.Time:
		return formatFraction(*p)
	case *GPUSet:
		return bits(*p)
	}
	return textOf(s, name)
}

// bits is the set as a binary number with bit n for GPU n.
func bits(g GPUSet) string {
	if g.Unknown {
		return bitVectorUnknown
	}
	digits := slices.Repeat([]byte{'0'}, 64)
	for _, n := range g.Indices {
		digits[63-n] = '1'
	}
	if text := strings.TrimLeft(string(digits), "0"); text != "" {
		return text
	}
	return "0"
}

// formatFraction has 0, 3, 6 or 9 decimals as needed, in UTC.
func formatFraction(t time.Time) string {
	t = t.UTC()
	layout := "2006-01-02T15:04:05"
	switch ns := t.Nanosecond(); {
	case ns == 0:
	case ns%1e6 == 0:
		layout += ".000"
	case ns%1e3 == 0:
		layout += ".000000"
	default:
		layout += ".000000000"
	}
	return t.Format(layout) + "+00:00"
}
