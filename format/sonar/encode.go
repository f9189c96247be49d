package sonar

import (
	"fmt"
	"strconv"
	"time"
)

// AppendCSV appends the record as one line of CSV, with its newline, in the form of s.Version. Before 0.7 columns
// have no names; before 0.8 a line has all fields, with their defaults. Later lines have only fields that differ from
// their defaults. Fields that the version does not have are left out. Integers beyond 52 bits, numbers that are not
// finite or negative, and a missing required field are errors, and nothing is appended.
func (s *Sample) AppendCSV(dst []byte) ([]byte, error) {
	v, err := s.valid()
	if err != nil {
		return dst, fmt.Errorf("sonar: write a record of process %d, %.40q: %w", s.PID, s.Cmd, err)
	}
	e := encoder{dst: dst, start: len(dst)}
	switch {
	case v.before(version{0, 7}):
		return s.appendUnnamed(dst)
	case v.before(version{0, 8}):
		for _, name := range columnsOf07 {
			e.all = name != "pid" && name != "rolledup"
			e.putField(name, s.at(name))
		}
	default:
		for _, c := range sampleColumns {
			if v.has(c.name) {
				e.putField(c.name, c.at(s))
			}
		}
	}
	return append(e.dst, '\n'), nil
}

// columnsOf07 are the fields of 0.7 in the order of the example on the page.
var columnsOf07 = [...]string{
	"v", "time", "host", "cores", "user", "job", "pid", "cmd", "cpu%", "cpukib", "gpus", "gpu%", "gpumem%", "gpukib",
	"cputime_sec", "rolledup",
}

// has reports whether the version, which is 0.8 or later, has a field.
func (v version) has(name string) bool {
	switch name {
	case "cores", "memtotalkib":
		return v.before(version{0, 10})
	case "ppid":
		return !v.before(version{0, 11})
	case "load":
		return !v.before(version{0, 12})
	case "epoch", "gpuinfo":
		return !v.before(version{0, 13})
	}
	return true
}

// appendUnnamed appends the form of 0.6.
func (s *Sample) appendUnnamed(dst []byte) ([]byte, error) {
	bits, err := s.GPUs.bits()
	if err != nil {
		return dst, fmt.Errorf("sonar: write a record of %.40q: %w", s.Cmd, err)
	}
	for i, name := range unnamed {
		if i > 0 {
			dst = append(dst, ',')
		}
		switch p := s.at(name).(type) {
		case *time.Time:
			dst = append(dst, formatFraction(*p)...)
		case *GPUSet:
			dst = append(dst, bits...)
		case *uint64:
			dst = strconv.AppendUint(dst, *p, 10)
		case *float64:
			dst = append(dst, formatFloat(*p)...)
		case *string:
			dst = appendElement(dst, clean(*p))
		}
	}
	return append(dst, '\n'), nil
}

// AppendJSON appends the records of one invocation as one JSON object and a newline. head has the Version, Time and
// Host of all records, and the Load and GPUInfo of the host. JSON exists since 0.13. Errors are as in AppendCSV.
func AppendJSON(dst []byte, head *Sample, samples []Sample) ([]byte, error) {
	envelope := *head
	envelope.User, envelope.Cmd = NoInfo, NoInfo // an envelope has none
	if _, err := envelope.valid(); err != nil {
		return dst, fmt.Errorf("sonar: write the JSON of %.40q: %w", head.Host, err)
	}
	for _, s := range samples {
		s.Version, s.Time, s.Host = head.Version, head.Time, head.Host
		if _, err := s.valid(); err != nil {
			return dst, fmt.Errorf("sonar: write the JSON of process %d, %.40q: %w", s.PID, s.Cmd, err)
		}
	}
	e := encoder{dst: append(dst, '{'), start: len(dst) + 1, json: true}
	for _, name := range [...]string{"v", "time", "host", "load", "gpuinfo"} {
		e.putField(name, head.at(name))
	}
	e.name("samples")
	out := appendArray(e.dst, samples, func(dst []byte, s *Sample) []byte { return appendObject(dst, processColumns, s) })
	return append(out, "}\n"...), nil
}

// valid reports why the record cannot be written.
func (s *Sample) valid() (version, error) {
	if err := s.check(); err != nil {
		return version{}, err
	}
	if err := checkWritable(sampleColumns, s, ""); err != nil {
		return version{}, err
	}
	return parseVersion(s.Version)
}

// formatTime has whole seconds, as in all versions except 0.6.
func formatTime(t time.Time) string {
	if _, offset := t.Zone(); offset%60 != 0 {
		t = t.UTC() // only offsets of whole minutes can be written
	}
	return t.Format(isoTime)
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
