package gempba

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// Control is what a client asks of the center.
type Control struct {
	Kind     ControlKind
	Value    uint64         // milliseconds, of the two intervals
	WorkerID rt.Opt[uint32] // of BeNodeSentinel: the worker that is to speak for its host
}

// ControlKind is what a control line asks for.
type ControlKind string

// The kinds. Others are passed over.
const (
	SetWorkerInterval ControlKind = "set_worker_interval_ms"
	SetNodeInterval   ControlKind = "set_node_interval_ms"
	BeNodeSentinel    ControlKind = "be_node_sentinel"
)

// The bounds of cadences: what is beyond is brought within.
const (
	MinInterval = 50 * time.Millisecond
	MaxInterval = 60_000 * time.Millisecond
)

// MaxPending is how many bytes of an unfinished control line a server keeps: a client
// that sends more is dropped.
const MaxPending = 4096

// Interval is the cadence that the line asks for, within its bounds.
func (c Control) Interval() time.Duration {
	ms := min(max(c.Value, uint64(MinInterval/time.Millisecond)), uint64(MaxInterval/time.Millisecond))
	return time.Duration(ms) * time.Millisecond
}

// ParseControl reads one control line, with or without its end. A kind may also be in
// the page's capitals. Values below 0 are taken as 0, fractions are cut off. Of a kind
// that is not known nothing else is looked at.
func ParseControl(line []byte) (Control, error) {
	var in struct {
		Kind     string         `json:"kind"`
		Value    json.Number    `json:"value"`
		WorkerID rt.Opt[uint32] `json:"worker_id"`
	}
	var kind struct {
		Kind *string `json:"kind"`
	}
	if err := unmarshal(line, &kind); err != nil {
		return Control{}, fmt.Errorf("a control line: %w", err)
	}
	if kind.Kind == nil {
		return Control{}, fmt.Errorf("a control line: %w: it has no kind", ErrFormat)
	}
	c := Control{Kind: ControlKind(strings.ToLower(*kind.Kind))}
	switch c.Kind {
	case SetWorkerInterval, SetNodeInterval, BeNodeSentinel:
	default:
		return c, nil
	}
	if err := unmarshal(line, &in); err != nil {
		return Control{}, fmt.Errorf("a control line: %w", err)
	}
	c.WorkerID = in.WorkerID
	if c.Kind == BeNodeSentinel {
		return c, nil
	}
	var err error
	c.Value, err = milliseconds(string(in.Value))
	if err != nil {
		return Control{}, fmt.Errorf("a control line: the value of %s: %w: %w", c.Kind, ErrFormat, err)
	}
	return c, nil
}

func milliseconds(text string) (uint64, error) {
	if v, err := strconv.ParseUint(text, 10, 64); err == nil {
		return v, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil && !math.IsInf(f, 0): // beyond the largest float is beyond the bound, too
		return 0, err
	case f <= 0:
		return 0, nil
	case f >= math.MaxUint64:
		return math.MaxUint64, nil
	}
	return uint64(f), nil
}

// AppendControl appends a control line as GemPBA's own parser wants it: lower case,
// without blanks, unsigned.
func AppendControl(b []byte, c Control) []byte {
	b = append(append(append(b, `{"kind":"`...), c.Kind...), '"')
	if c.Kind != BeNodeSentinel {
		b = strconv.AppendUint(append(b, `,"value":`...), c.Value, 10)
	}
	if id, ok := c.WorkerID.Get(); ok {
		b = strconv.AppendUint(append(b, `,"worker_id":`...), uint64(id), 10)
	}
	return append(b, "}\n"...)
}

// ControlLines takes the bytes of one client and calls each for its whole lines. What
// is left waits for the next bytes; an error means that the client is to be dropped.
type ControlLines struct{ pending []byte }

// Take takes what has come.
func (l *ControlLines) Take(b []byte, each func(Control)) error {
	for len(b) > 0 {
		text, rest, whole := bytes.Cut(b, []byte("\n"))
		if len(l.pending)+len(text) > MaxPending {
			return fmt.Errorf("more than %d bytes without the end of a control line: %w", MaxPending, ErrLimit)
		}
		l.pending, b = append(l.pending, text...), rest
		if !whole {
			return nil
		}
		line := bytes.TrimSpace(l.pending)
		if len(line) > 0 {
			c, err := ParseControl(line)
			if err != nil {
				return err
			}
			each(c)
		}
		l.pending = l.pending[:0]
	}
	return nil
}

// Close says whether the client left in the middle of a line.
func (l *ControlLines) Close() error {
	if len(l.pending) > 0 {
		return fmt.Errorf("%d bytes of a control line: %w", len(l.pending), ErrCut)
	}
	return nil
}
