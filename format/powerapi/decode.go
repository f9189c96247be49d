package powerapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// MaxDocument bounds one report in bytes.
const MaxDocument = 1 << 20

// DecodeJSON goes through the reports of a stream of JSON documents, on a line each or over several. Groups nest CPUs
// in sockets, as sensors write them. The text of the page nests them the other way round, and a document does not
// show which. A document that is JSON and no report is an error and the next one follows. After a document that is
// not JSON, or too large, nothing follows.
func DecodeJSON(r io.Reader) iter.Seq2[Report, error] {
	return func(yield func(Report, error) bool) {
		limited := &io.LimitedReader{R: r, N: 2 * MaxDocument}
		dec := json.NewDecoder(limited)
		for n := 1; ; n++ {
			var raw json.RawMessage
			err := dec.Decode(&raw)
			if err != nil && limited.N <= 0 {
				err = errTooLarge
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("report %d is not JSON: %w", n, err))
				return
			}
			limited.N = 2 * MaxDocument // what the decoder holds of the next one counts for that
			rep, err := ParseJSON(raw)
			if err != nil {
				err = fmt.Errorf("report %d: %w", n, err)
			}
			if !yield(rep, err) {
				return
			}
		}
	}
}

var errTooLarge = fmt.Errorf("it is longer than %d bytes", MaxDocument)

// document is a report of any kind.
type document struct {
	Timestamp json.RawMessage    `json:"timestamp"`
	Sensor    *string            `json:"sensor"`
	Target    json.RawMessage    `json:"target"`
	Metadata  Metadata           `json:"metadata"`
	Groups    map[string]Sockets `json:"groups"`
	Power     *json.Number       `json:"power"`
	Usage     map[string]float64 `json:"usage"`
	Global    *float64           `json:"global_cpu_usage"`
}

var errKind = errors.New("it has none of groups, power and usage, which distinguish the kinds of reports, or more than one")

// ParseJSON parses one document. It ignores unknown fields.
func ParseJSON(data []byte) (Report, error) {
	if len(data) > MaxDocument {
		return nil, errTooLarge
	}
	var doc document
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		return nil, err
	}
	head, err := doc.head()
	if err != nil {
		return nil, err
	}
	switch [...]bool{doc.Groups != nil, doc.Power != nil, doc.Usage != nil} {
	case [...]bool{true, false, false}:
		return doc.hwpc(head)
	case [...]bool{false, true, false}:
		return doc.power(head)
	case [...]bool{false, false, true}:
		return doc.procfs(head)
	}
	return nil, errKind
}

func (doc *document) head() (Header, error) {
	h := Header{Metadata: doc.Metadata.clone()}
	switch {
	case doc.Timestamp == nil:
		return h, errors.New("it has no timestamp")
	case doc.Sensor == nil:
		return h, errors.New("it has no sensor")
	case doc.Target == nil:
		return h, errors.New("it has no target")
	}
	h.Sensor = *doc.Sensor
	var err error
	h.Time, err = parseStampJSON(doc.Timestamp)
	return h, err
}

func (doc *document) target() (string, error) {
	var target *string
	if err := json.Unmarshal(doc.Target, &target); err != nil || target == nil {
		return "", fmt.Errorf("the target %s is not a text", shorten(string(doc.Target)))
	}
	return *target, nil
}

func (doc *document) hwpc(head Header) (Report, error) {
	target, err := doc.target()
	if err != nil {
		return nil, err
	}
	return &HWPCReport{Header: head, Target: target, Groups: doc.Groups}, nil
}

func (doc *document) power(head Header) (Report, error) {
	target, err := doc.target()
	if err != nil {
		return nil, err
	}
	watts, err := doc.Power.Float64()
	if err != nil {
		return nil, fmt.Errorf("the power %s is not a number", shorten(doc.Power.String()))
	}
	if err := measured("power", watts); err != nil {
		return nil, err
	}
	return &PowerReport{Header: head, Target: target, Power: watts}, nil
}

func (doc *document) procfs(head Header) (Report, error) {
	r := &ProcfsReport{Header: head, Usage: doc.Usage}
	if json.Unmarshal(doc.Target, &r.Targets) != nil || r.Targets == nil {
		target, err := doc.target()
		if err != nil {
			return nil, fmt.Errorf("the target %s is neither a list of texts nor a text", shorten(string(doc.Target)))
		}
		r.Targets = []string{target}
	}
	if doc.Global == nil {
		return nil, errors.New("it has no global_cpu_usage")
	}
	r.GlobalCPUUsage = *doc.Global
	if err := r.measured(); err != nil {
		return nil, err
	}
	return r, nil
}

// measured checks the figures.
func (r *ProcfsReport) measured() error {
	for target, v := range r.Usage {
		if err := measured("usage of "+shorten(target), v); err != nil {
			return err
		}
	}
	return measured("global_cpu_usage", r.GlobalCPUUsage)
}

// most is more than a node can draw in watts, or use in percent of a CPU.
const most = 1e9

var errRange = fmt.Errorf("it can be from 0 to %g", most)

// measured checks that a figure can be a measurement; the error is errRange.
func measured(name string, v float64) error {
	isPossible := v >= 0 && v <= most // false for NaN
	if !isPossible {
		return fmt.Errorf("the %s is %g: %w", name, v, errRange)
	}
	return nil
}
