package powerapi

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// line is a report of any kind as it is written.
type line struct {
	Timestamp json.RawMessage    `json:"timestamp"`
	Sensor    string             `json:"sensor"`
	Target    any                `json:"target"`
	Groups    map[string]Sockets `json:"groups,omitzero"`
	Power     *float64           `json:"power,omitzero"`
	Usage     map[string]float64 `json:"usage,omitzero"`
	Global    *float64           `json:"global_cpu_usage,omitzero"`
	Metadata  Metadata           `json:"metadata"`
}

// AppendJSON implements Report.
func (r *HWPCReport) AppendJSON(dst []byte, stamp Stamp) ([]byte, error) {
	groups := r.Groups
	if groups == nil {
		groups = map[string]Sockets{}
	}
	return r.append(dst, stamp, line{Target: r.Target, Groups: groups})
}

// AppendJSON implements Report.
func (r *PowerReport) AppendJSON(dst []byte, stamp Stamp) ([]byte, error) {
	return r.append(dst, stamp, line{Target: r.Target, Power: &r.Power})
}

// AppendJSON implements Report.
func (r *ProcfsReport) AppendJSON(dst []byte, stamp Stamp) ([]byte, error) {
	targets, usage := r.Targets, r.Usage
	if targets == nil {
		targets = []string{}
	}
	if usage == nil {
		usage = map[string]float64{}
	}
	return r.append(dst, stamp, line{Target: targets, Usage: usage, Global: &r.GlobalCPUUsage})
}

// append completes the line with what all reports have, and appends it.
func (h *Header) append(dst []byte, stamp Stamp, l line) ([]byte, error) {
	var err error
	l.Timestamp, err = appendStamp(nil, h.Time, stamp)
	if err != nil {
		return dst, err
	}
	l.Sensor, l.Metadata = h.Sensor, h.Metadata.clone()
	out := bytes.NewBuffer(dst)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil { // a number that is not finite, in a figure or in the metadata
		return dst, fmt.Errorf("write a report: %w", err)
	}
	return out.Bytes(), nil
}
