package sonar

import (
	"fmt"
	"time"
)

// AppendCSV appends the record as one line of CSV, with its newline, in the form of 0.13. The line has the fields that
// differ from their defaults, without those that only older versions have. Integers beyond 52 bits, numbers that are
// not finite or negative, and a missing required field are errors, and nothing is appended.
func (s *Sample) AppendCSV(dst []byte) ([]byte, error) {
	if err := s.valid(); err != nil {
		return dst, fmt.Errorf("sonar: write a record of process %d, %.40q: %w", s.PID, s.Cmd, err)
	}
	e := encoder{dst: dst, start: len(dst)}
	for _, c := range sampleColumns {
		if c.name != "cores" && c.name != "memtotalkib" {
			e.putField(c.name, c.at(s))
		}
	}
	return append(e.dst, '\n'), nil
}

// AppendJSON appends the records of one invocation as one JSON object and a newline. head has the Version, Time and
// Host of all records, and the Load and GPUInfo of the host. JSON exists since 0.13. Errors are as in AppendCSV.
func AppendJSON(dst []byte, head *Sample, samples []Sample) ([]byte, error) {
	envelope := *head
	envelope.User, envelope.Cmd = NoInfo, NoInfo // an envelope has none
	if err := envelope.valid(); err != nil {
		return dst, fmt.Errorf("sonar: write the JSON of %.40q: %w", head.Host, err)
	}
	for _, s := range samples {
		s.Version, s.Time, s.Host = head.Version, head.Time, head.Host
		if err := s.valid(); err != nil {
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
func (s *Sample) valid() error {
	if err := s.check(); err != nil {
		return err
	}
	return checkWritable(sampleColumns, s, "")
}

// formatTime has whole seconds, as in all versions except 0.6.
func formatTime(t time.Time) string {
	if _, offset := t.Zone(); offset%60 != 0 {
		t = t.UTC() // only offsets of whole minutes can be written
	}
	return t.Format(isoTime)
}
