package gempba

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/resource-tracker/rt"
)

// Decoder decodes the lines of a broadcast.
type Decoder struct {
	lines *bufio.Scanner
	line  int // number of the last one
}

// NewDecoder returns a decoder of r, which may read ahead.
func NewDecoder(r io.Reader) *Decoder {
	return &Decoder{lines: newLines(r, MaxLine)}
}

// newLines returns the lines of r, of at most a number of bytes with their ends.
func newLines(r io.Reader, most int) *bufio.Scanner {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, most)
	lines.Split(splitLine)
	return lines
}

// splitLine is a bufio.SplitFunc of lines that all end in a newline.
func splitLine(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if end := bytes.IndexByte(data, '\n'); end >= 0 {
		return end + 1, data[:end], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, ErrCut
	}
	return 0, nil, nil
}

// Next decodes the next line. At the end it returns io.EOF, or ErrCut if the stream ends within a
// line. After an error that wraps ErrFormat, ErrVersion or ErrLimit it continues with the next
// line. After a line longer than MaxLine, or an error of the stream, every further call returns
// the same error.
func (d *Decoder) Next() (*Envelope, error) {
	for d.lines.Scan() {
		d.line++
		line := bytes.TrimSpace(d.lines.Bytes())
		if len(line) == 0 {
			continue
		}
		e, err := Parse(line)
		if err != nil {
			return nil, fmt.Errorf("line %d of the telemetry: %w", d.line, err)
		}
		return e, nil
	}
	switch err := d.lines.Err(); {
	case err == nil:
		return nil, io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d of the telemetry has more than %d bytes: %w", d.line+1, MaxLine, ErrLimit)
	case errors.Is(err, ErrCut):
		return nil, fmt.Errorf("line %d of the telemetry: %w", d.line+1, ErrCut)
	default:
		return nil, fmt.Errorf("read line %d of the telemetry: %w", d.line+1, err)
	}
}

// Parse parses one line, with or without its newline.
func Parse(line []byte) (*Envelope, error) {
	line = withoutNaN(line)
	var head struct {
		Version uint32 `json:"version"`
		TS      *int64 `json:"ts"`
	}
	if err := unmarshal(line, &head); err != nil {
		return nil, err
	}
	if head.Version > SchemaVersion {
		return nil, fmt.Errorf("version %d: %w, which knows %d", head.Version, ErrVersion, SchemaVersion)
	}
	if head.TS == nil {
		return nil, fmt.Errorf("%w: it has no ts", ErrFormat)
	}
	e := &Envelope{}
	if err := unmarshal(line, e); err != nil {
		return nil, err
	}
	return e, e.check()
}

// noID is an id that a line does not have.
const noID = math.MaxUint32

// UnmarshalJSON implements json.Unmarshaler.
func (e *Envelope) UnmarshalJSON(b []byte) error {
	type plain Envelope
	return unmarshal(b, &struct {
		*plain
		Workers limited[WorkerFrame] `json:"workers"`
		Nodes   limited[NodeFrame]   `json:"nodes"`
	}{(*plain)(e), limited[WorkerFrame]{&e.Workers, MaxWorkers}, limited[NodeFrame]{&e.Nodes, MaxWorkers}})
}

// UnmarshalJSON implements json.Unmarshaler.
func (w *WorkerFrame) UnmarshalJSON(b []byte) error {
	type plain WorkerFrame
	w.WorkerID = noID
	err := unmarshal(b, &struct {
		*plain
		EdgesOut limited[Edge] `json:"edges_out"`
		Peers    limited[Peer] `json:"rt_peers"`
	}{(*plain)(w), limited[Edge]{&w.EdgesOut, MaxWorkers}, limited[Peer]{&w.Peers, MaxPeers}})
	if err == nil && w.WorkerID == noID {
		err = fmt.Errorf("it has no worker_id: %w", ErrFormat)
	}
	clearUnread(w, &w.Unread)
	return err
}

// UnmarshalJSON implements json.Unmarshaler. GemPBA's 0 for a cgroup's memory is absent: it means not
// known, or no limit.
func (n *NodeFrame) UnmarshalJSON(b []byte) error {
	type plain NodeFrame
	n.SentinelWorkerID = noID
	err := unmarshal(b, &struct {
		*plain
		Sockets limited[SocketFrame] `json:"sockets"`
	}{(*plain)(n), limited[SocketFrame]{&n.Sockets, MaxSockets}})
	if err == nil && n.SentinelWorkerID == noID {
		err = fmt.Errorf("it has no sentinel_worker_id: %w", ErrFormat)
	}
	clearUnread(n, &n.Unread)
	for _, v := range []*rt.Opt[uint64]{&n.CgroupMemUsedBytes, &n.CgroupMemLimitBytes} {
		if v.Or(0) == 0 {
			v.Clear()
		}
	}
	return err
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *SocketFrame) UnmarshalJSON(b []byte) error {
	type plain SocketFrame
	err := unmarshal(b, (*plain)(s))
	clearUnread(s, &s.Unread)
	return err
}

// limited is a list with a limit for its elements. null is an empty list.
type limited[T any] struct {
	list *[]T
	most int
}

// UnmarshalJSON implements json.Unmarshaler.
func (l limited[T]) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return fmt.Errorf("not a list: %w", ErrFormat)
	}
	*l.list = []T{}
	for d.More() {
		if len(*l.list) == l.most {
			return fmt.Errorf("a list of more than %d elements: %w", l.most, ErrLimit)
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return fmt.Errorf("element %d of a list: %w", len(*l.list)+1, err)
		}
		*l.list = append(*l.list, one)
	}
	return nil
}

// unmarshal parses a JSON object. Its error wraps ErrFormat or ErrLimit.
func unmarshal(b []byte, to any) error {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] != '{' {
		return fmt.Errorf("%w: not a JSON object", ErrFormat)
	}
	err := json.Unmarshal(b, to)
	if err == nil || errors.Is(err, ErrFormat) || errors.Is(err, ErrLimit) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrFormat, err)
}
