package gempba

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// Control is a request of a client to the center.
type Control struct {
	Kind     ControlKind
	Value    uint64         // milliseconds, of the two intervals
	WorkerID rt.Opt[uint32] // of BeNodeSentinel: the worker that shall report for its host
}

// ControlKind is the kind of a request.
type ControlKind string

// The kinds. Others are ignored.
const (
	SetWorkerInterval ControlKind = "set_worker_interval_ms"
	SetNodeInterval   ControlKind = "set_node_interval_ms"
	BeNodeSentinel    ControlKind = "be_node_sentinel"
)

// The bounds of intervals. Values outside are clamped.
const (
	MinInterval = 50 * time.Millisecond
	MaxInterval = 600_000 * time.Millisecond
)

// MaxPending bounds the bytes of an unfinished control line. A server drops a client that sends
// more.
const MaxPending = 4096

// Interval returns the requested interval, within its bounds.
func (c Control) Interval() time.Duration {
	ms := min(max(c.Value, uint64(MinInterval/time.Millisecond)), uint64(MaxInterval/time.Millisecond))
	return time.Duration(ms) * time.Millisecond
}

// ParseControl parses one control line, with or without its newline. It also accepts a kind in
// capitals under the name in the table of GemPBA's page: {"control_kind":"SET_NODE_INTERVAL_MS"}.
// Negative values become 0, and fractions are cut off. For an unknown kind only the kind is parsed.
func ParseControl(line []byte) (Control, error) {
	var in struct {
		Value    json.Number    `json:"value"`
		WorkerID rt.Opt[uint32] `json:"worker_id"`
	}
	var kind struct {
		Kind     *string `json:"kind"`
		PageKind *string `json:"control_kind"`
	}
	if err := unmarshal(line, &kind); err != nil {
		return Control{}, fmt.Errorf("a control line: %w", err)
	}
	name := cmp.Or(kind.Kind, kind.PageKind)
	if name == nil {
		return Control{}, fmt.Errorf("a control line: %w: it has no kind", ErrFormat)
	}
	c := Control{Kind: ControlKind(strings.ToLower(*name))}
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
	case err != nil && !math.IsInf(f, 0): // a value beyond the largest float is beyond the bound too
		return 0, err
	case f <= 0:
		return 0, nil
	case f >= math.MaxUint64:
		return math.MaxUint64, nil
	}
	return uint64(f), nil
}

// Controls yields the control lines that a client sends. After an error, which is the last element, the client must
// be dropped.
func Controls(r io.Reader) iter.Seq2[Control, error] {
	return func(yield func(Control, error) bool) {
		lines := newLines(r, MaxPending+1)
		for lines.Scan() {
			line := bytes.TrimSpace(lines.Bytes())
			if len(line) == 0 {
				continue
			}
			c, err := ParseControl(line)
			if !yield(c, err) || err != nil {
				return
			}
		}
		switch err := lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			yield(Control{}, fmt.Errorf("more than %d bytes without the end of a control line: %w", MaxPending, ErrLimit))
		case errors.Is(err, ErrCut):
			yield(Control{}, fmt.Errorf("a control line: %w", err))
		case err != nil:
			yield(Control{}, fmt.Errorf("its connection failed: %w", err))
		}
	}
}
