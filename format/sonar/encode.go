package sonar

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// AppendCSV appends the record as one line of CSV, with its newline, in the form of s.Version:
// unnamed columns before 0.7, all fields with their defaults before 0.8, and from then on only
// fields that differ from their defaults. Fields that the version does not have are left out.
// Integers beyond 52 bits, numbers that are not finite or negative, and a missing required field
// are errors, and nothing is appended.
func (s *Sample) AppendCSV(dst []byte) ([]byte, error) {
	v, err := s.valid()
	if err != nil {
		return dst, fmt.Errorf("sonar: write a record of process %d, %.40q: %w", s.PID, s.Cmd, err)
	}
	if v.before(version{0, 7}) {
		return s.appendUnnamed(dst)
	}
	e := encoder{dst: dst, start: len(dst), all: v.before(version{0, 8})}
	e.text("v", clean(s.Version))
	e.text("time", formatTime(s.Time))
	e.text("host", clean(s.Host))
	if e.all {
		s.fieldsOf07(&e)
	} else {
		s.fields(&e, v)
	}
	return append(e.dst, '\n'), nil
}

// fieldsOf07 appends the fields of 0.7 in the order of the example on the page.
func (s *Sample) fieldsOf07(e *encoder) {
	e.integer("cores", s.Cores)
	e.text("user", clean(s.User))
	e.integer("job", s.Job)
	e.sparse("pid", s.PID)
	e.text("cmd", clean(s.Cmd))
	e.float("cpu%", s.CPUPct)
	e.integer("cpukib", s.CPUKiB)
	e.text("gpus", s.GPUs.String())
	e.float("gpu%", s.GPUPct)
	e.float("gpumem%", s.GPUMemPct)
	e.integer("gpukib", s.GPUKiB)
	e.integer("cputime_sec", s.CPUTimeSec)
	e.sparse("rolledup", s.RolledUp)
}

// fields appends the fields of 0.8 and later, except the first three.
func (s *Sample) fields(e *encoder, v version) {
	if v.before(version{0, 10}) {
		e.integer("cores", s.Cores)
		e.integer("memtotalkib", s.MemTotalKiB)
	}
	s.process(e, !v.before(version{0, 11}))
	if len(s.Load) > 0 && !v.before(version{0, 12}) {
		e.text("load", string(appendLoad(nil, s.Load)))
	}
	if len(s.GPUInfo) > 0 && !v.before(version{0, 13}) {
		e.text("gpuinfo", string(AppendFree(nil, gpuInfo(s.GPUInfo), QuoteField)))
	}
}

// process appends the fields of the process, which are the same in CSV and JSON.
func (s *Sample) process(e *encoder, ppid bool) {
	e.text("user", clean(s.User))
	e.text("cmd", clean(s.Cmd))
	e.integer("job", s.Job)
	e.integer("pid", s.PID)
	if ppid {
		e.integer("ppid", s.PPID)
	}
	e.float("cpu%", s.CPUPct)
	e.integer("cpukib", s.CPUKiB)
	e.integer("rssanonkib", s.RSSAnonKiB)
	if gpus := s.GPUs.String(); gpus != "none" {
		e.text("gpus", gpus)
	}
	e.float("gpu%", s.GPUPct)
	e.float("gpumem%", s.GPUMemPct)
	e.integer("gpukib", s.GPUKiB)
	e.integer("cputime_sec", s.CPUTimeSec)
	e.integer("rolledup", s.RolledUp)
}

// appendUnnamed appends the form of 0.6.
func (s *Sample) appendUnnamed(dst []byte) ([]byte, error) {
	bits, err := s.GPUs.bits()
	if err != nil {
		return dst, fmt.Errorf("sonar: write a record of %.40q: %w", s.Cmd, err)
	}
	for i, text := range [...]string{
		formatFraction(s.Time), clean(s.Host), decimal(s.Cores), clean(s.User), decimal(s.Job), clean(s.Cmd),
		number(s.CPUPct), decimal(s.CPUKiB), bits, number(s.GPUPct), number(s.GPUMemPct), decimal(s.GPUKiB),
	} {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendElement(dst, text)
	}
	return append(dst, '\n'), nil
}

// AppendJSON appends the records of one invocation as one JSON object and a
// newline. head has the Version, Time and Host of all records, and the Load and GPUInfo of the
// host. JSON exists since 0.13. Errors are those of AppendCSV.
func AppendJSON(dst []byte, head *Sample, samples []Sample) ([]byte, error) {
	envelope := *head
	envelope.User, envelope.Cmd = NoInfo, NoInfo // an envelope has none
	if _, err := envelope.valid(); err != nil {
		return dst, fmt.Errorf("sonar: write the JSON of %.40q: %w", head.Host, err)
	}
	out := appendString(append(dst, `{"v":`...), clean(head.Version))
	out = appendString(append(out, `,"time":`...), formatTime(head.Time))
	out = appendString(append(out, `,"host":`...), clean(head.Host))
	if len(head.Load) > 0 {
		out = append(out, `,"load":`...)
		for i, seconds := range head.Load {
			out = strconv.AppendUint(append(out, "[,"[min(i, 1)]), seconds, 10)
		}
		out = append(out, ']')
	}
	if len(head.GPUInfo) > 0 {
		out = appendGPUs(append(out, `,"gpuinfo":`...), head.GPUInfo)
	}
	out = append(out, `,"samples":[`...)
	for i := range samples {
		s := samples[i]
		s.Version, s.Time, s.Host = head.Version, head.Time, head.Host
		if _, err := s.valid(); err != nil {
			return dst, fmt.Errorf("sonar: write the JSON of process %d, %.40q: %w", s.PID, s.Cmd, err)
		}
		if i > 0 {
			out = append(out, ',')
		}
		e := encoder{dst: append(out, '{'), start: len(out) + 1, json: true}
		s.process(&e, true)
		out = append(e.dst, '}')
	}
	return append(out, "]}\n"...), nil
}

func appendGPUs(dst []byte, gpus []GPU) []byte {
	dst = append(dst, '[')
	for i := range gpus {
		if i > 0 {
			dst = append(dst, ',')
		}
		e := encoder{dst: append(dst, '{'), start: len(dst) + 1, json: true}
		for _, name := range gpuAttributes {
			if p := gpus[i].integer(name); p != nil {
				e.integer(name, *p)
			} else if text := clean(gpus[i].text(name)); text != "" {
				e.text(name, text)
			}
		}
		dst = append(e.dst, '}')
	}
	return append(dst, ']')
}

// valid reports why the record cannot be written.
func (s *Sample) valid() (version, error) {
	if err := s.check(); err != nil {
		return version{}, err
	}
	for _, name := range [...]string{
		"job", "pid", "ppid", "cores", "memtotalkib", "cpukib", "rssanonkib", "cputime_sec", "rolledup", "gpukib",
	} {
		if n := *s.integer(name); n > maxInteger {
			return version{}, fmt.Errorf("%s is %d, which has more than 52 bits", name, n)
		}
	}
	for i := range s.GPUInfo {
		for _, name := range gpuAttributes {
			if p := s.GPUInfo[i].integer(name); p != nil && *p > maxInteger {
				return version{}, fmt.Errorf("%s of GPU %d is %d, which has more than 52 bits", name, i, *p)
			}
		}
	}
	for _, name := range [...]string{"cpu%", "gpu%", "gpumem%"} {
		if v := *s.float(name); math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return version{}, fmt.Errorf("%s is %v: it must be 0 or more", name, v)
		}
	}
	if s.Time.Before(minTime) || s.Time.After(maxTime) {
		return version{}, errors.New("the time is not between 1970 and 2262")
	}
	if len(s.GPUInfo) > maxGPUs {
		return version{}, fmt.Errorf("%d GPUs are more than a host can have", len(s.GPUInfo))
	}
	return parseVersion(s.Version)
}

// encoder appends the fields of a flat record.
type encoder struct {
	dst   []byte
	start int  // of the record
	json  bool // otherwise free CSV
	all   bool // write zeros too
}

func (e *encoder) name(name string) {
	if len(e.dst) > e.start {
		e.dst = append(e.dst, ',')
	}
	if e.json {
		e.dst = append(appendString(e.dst, name), ':')
	}
}

func (e *encoder) text(name, value string) {
	e.name(name)
	if e.json {
		e.dst = appendString(e.dst, value)
		return
	}
	e.dst = appendPair(e.dst, name, value, QuoteField)
}

func (e *encoder) number(name, value string) {
	e.name(name)
	if !e.json {
		e.dst = append(append(e.dst, name...), '=')
	}
	e.dst = append(e.dst, value...)
}

// sparse leaves out a zero.
func (e *encoder) sparse(name string, n uint64) {
	if n != 0 {
		e.number(name, decimal(n))
	}
}

func (e *encoder) integer(name string, n uint64) {
	if n != 0 || e.all {
		e.number(name, decimal(n))
	}
}

func (e *encoder) float(name string, v float64) {
	if v != 0 || e.all {
		e.number(name, number(v))
	}
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

func number(v float64) string { return strconv.FormatFloat(math.Abs(v), 'f', -1, 64) } // no "-0"

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

// appendString appends a text that clean returned as a JSON string.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, s[i])
	}
	return append(dst, '"')
}
