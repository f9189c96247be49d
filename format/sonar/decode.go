package sonar

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

// Record is a *Sample, *Sysinfo, *JobRecord or *Failure.
type Record interface{ record() }

func (*Sample) record()    {}
func (*Sysinfo) record()   {}
func (*JobRecord) record() {}
func (*Failure) record()   {}

// Error has the place of malformed input.
type Error struct {
	Line   int   // 1, 2, ... of CSV; 0 in JSON
	Offset int64 // bytes before the line, or before the malformed JSON
	Err    error
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("line %d (from byte %d): %v", e.Line, e.Offset, e.Err)
	}
	return fmt.Sprintf("byte %d: %v", e.Offset, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Decode reads a file of sonar ps, sysinfo or slurm, in CSV of any version or in JSON, which it recognizes. Malformed
// input is yielded as an *Error with a nil Record. Malformed CSV drops its line; malformed JSON ends the reading
// after the records before it. An error of r ends it too.
func Decode(r io.Reader) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		br := bufio.NewReaderSize(r, 64<<10)
		head, _ := br.Peek(256) // the first read returns the error again
		if bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte("{")) {
			decodeJSON(br, yield)
			return
		}
		decodeCSV(br, yield)
	}
}

// decodeCSV decodes lines.
func decodeCSV(br *bufio.Reader, yield func(Record, error) bool) {
	var offset int64
	for number := 1; ; number++ {
		start := offset
		line, err := br.ReadBytes('\n')
		offset += int64(len(line))
		if len(line) == 0 && errors.Is(err, io.EOF) {
			return
		}
		rec, bad := Record(nil), err
		switch {
		case err == nil:
			rec, bad = parseLine(line[:len(line)-1])
		case errors.Is(err, io.EOF):
			bad = errors.New("the file ends inside this line, and its last field may be incomplete: a record ends with a newline")
		}
		if bad != nil {
			rec, bad = nil, &Error{Line: number, Offset: start, Err: bad}
		}
		hasResult := rec != nil || bad != nil
		if hasResult && !yield(rec, bad) {
			return
		}
		if err != nil {
			return
		}
	}
}

// parseLine parses one record. An empty line has none.
func parseLine(line []byte) (Record, error) {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, nil
	}
	if err := readable(line); err != nil {
		return nil, err
	}
	texts, err := split(string(line))
	if err != nil {
		return nil, err
	}
	if !strings.Contains(texts[0], "=") {
		return parseUnnamed(texts)
	}
	fields := named(texts)
	return complete(recordOf(fields), fields)
}

// complete sets the fields of a record and checks it.
func complete(rec flat, fields []Field) (Record, error) {
	if err := setFields(rec, fields); err != nil {
		return nil, err
	}
	if err := rec.check(); err != nil {
		return nil, err
	}
	return rec, nil
}

func setFields(rec flat, fields []Field) error {
	for _, f := range fields {
		if err := rec.set(f.Name, f.Text); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// flat is a record with fields that are set by name.
type flat interface {
	Record
	set(name, text string) error
	check() error
}

// recordOf returns the kind of record that has fields with these names.
func recordOf(fields []Field) flat {
	for _, f := range fields {
		switch f.Name {
		case "cmd", "user":
			return &Sample{}
		case "JobID", "JobIDRaw":
			return &JobRecord{}
		case "error":
			return &Failure{}
		case "hostname", "description", "cpu_cores", "gpu_info":
			return &Sysinfo{}
		}
	}
	return &Sample{} // its check reports the missing fields
}

// unnamed are the columns of 0.6; those from gpus on may be absent.
var unnamed = [...]string{
	"time", "host", "cores", "user", "job", "cmd", "cpu%", "cpukib", "gpus", "gpu%", "gpumem%", "gpukib",
}

const unnamedRequired = 8

// VersionUnnamed is the Version of a Sample from unnamed columns, which have none.
const VersionUnnamed = "0.6.0"

func parseUnnamed(texts []string) (Record, error) {
	if len(texts) < unnamedRequired || len(texts) > len(unnamed) {
		return nil, fmt.Errorf("%d columns without names: version 0.6 has %d to %d", len(texts), unnamedRequired, len(unnamed))
	}
	s := &Sample{Version: VersionUnnamed}
	for i, text := range texts {
		var err error
		if unnamed[i] == "gpus" {
			s.GPUs, err = parseBits(text)
		} else {
			err = s.set(unnamed[i], text)
		}
		if err != nil {
			return nil, fmt.Errorf("column %d (%s): %w", i+1, unnamed[i], err)
		}
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}
