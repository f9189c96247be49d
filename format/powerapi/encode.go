package powerapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// AppendJSON implements Report.
func (r *HWPCReport) AppendJSON(dst []byte, stamp Stamp) ([]byte, error) {
	groups := r.Groups
	if groups == nil {
		groups = map[string]Sockets{}
	}
	return r.append(dst, stamp, field{"target", r.Target}, field{"groups", groups})
}

// AppendJSON implements Report.
func (r *PowerReport) AppendJSON(dst []byte, stamp Stamp) ([]byte, error) {
	if err := finite("power", r.Power); err != nil {
		return dst, err
	}
	return r.append(dst, stamp, field{"target", r.Target}, field{"power", r.Power})
}

// AppendJSON implements Report.
func (r *ProcfsReport) AppendJSON(dst []byte, stamp Stamp) ([]byte, error) {
	if err := r.finite(); err != nil {
		return dst, err
	}
	targets, usage := r.Targets, r.Usage
	if targets == nil {
		targets = []string{}
	}
	if usage == nil {
		usage = map[string]float64{}
	}
	return r.append(dst, stamp, field{"target", targets}, field{"usage", usage}, field{"global_cpu_usage", r.GlobalCPUUsage})
}

func (r *ProcfsReport) finite() error {
	for target, v := range r.Usage {
		if err := finite("usage of "+target, v); err != nil {
			return err
		}
	}
	return finite("global_cpu_usage", r.GlobalCPUUsage)
}

// finite returns an error for a number that JSON does not have.
func finite(name string, v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("%s is %v: a report holds finite numbers alone; leave it out", name, v)
	}
	return nil
}

type field struct {
	name  string
	value any
}

// append writes time and sensor, the fields of the report, and metadata last.
func (h *Header) append(dst []byte, stamp Stamp, fields ...field) ([]byte, error) {
	out, err := appendStamp(append(dst, `{"timestamp":`...), h.Time, stamp)
	if err != nil {
		return dst, err
	}
	fields = append([]field{{"sensor", h.Sensor}}, fields...)
	for _, f := range append(fields, field{"metadata", h.Metadata.clone()}) {
		value, err := marshal(f.value)
		if err != nil {
			return dst, fmt.Errorf("write %s of a report: %w", f.name, err)
		}
		out = append(append(append(append(out, `,"`...), f.name...), `":`...), value...)
	}
	return append(out, "}\n"...), nil
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
