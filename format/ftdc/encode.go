package ftdc

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// epsilon is the largest change that is not written.
	epsilon = 1e-9
	// maxStep is the largest difference between the times of two datums in ns: a day.
	maxStep = 86_400_000_000_000

	schemaByte = 0x01
	timeBytes  = 8
	valueBytes = 4
)

// bitBytes returns the size of the document bit and the diff bits of n metrics in bytes.
func bitBytes(n int) int { return 1 + n/8 }

// outOfOrder reports whether a reader would take t after last for damage. A last of 0 is not a
// time.
func outOfOrder(last, t int64) bool {
	return last != 0 && (t < last || uint64(t)-uint64(last) > maxStep)
}

// Encoder writes the documents of one file, each with one Write.
type Encoder struct {
	// AnyTime writes datums that are otherwise refused with ErrTime. Readers that do not expect
	// them stop there.
	AnyTime bool

	w     io.Writer
	names []string
	prev  []float32 // values of the previous datum
	last  int64     // its time
	ready bool      // a schema is written
	buf   []byte
	flat  []float32 // of EncodeDatum
}

// NewEncoder returns an Encoder at the start of a file.
func NewEncoder(w io.Writer) *Encoder { return &Encoder{w: w} }

// Schema sets the metrics of the next datums. Every name has a dot. names is copied.
func (e *Encoder) Schema(names []string) error {
	for _, n := range names {
		switch {
		case !strings.Contains(n, "."):
			return fmt.Errorf("ftdc: metric %q: %w", n, ErrName)
		case !utf8.ValidString(n):
			return fmt.Errorf("ftdc: metric %q: the name is not UTF-8", n)
		}
	}
	if names == nil {
		names = []string{}
	}
	doc := bytes.NewBuffer([]byte{schemaByte})
	if err := json.NewEncoder(doc).Encode(names); err != nil {
		return fmt.Errorf("ftdc: encode the schema: %w", err)
	}
	if _, err := e.w.Write(doc.Bytes()); err != nil {
		return fmt.Errorf("ftdc: write the schema: %w", err)
	}
	e.names, e.prev, e.ready = slices.Clone(names), make([]float32, len(names)), true
	e.buf = make([]byte, bitBytes(len(names))+timeBytes+valueBytes*len(names))
	return nil
}

// Encode writes one datum: a time in nanoseconds since the epoch and a value for each metric of the schema. A value
// is written if it differs by more than 1e-9 from the previous value. A NaN is never written: the metric keeps its
// value, and a caller without a value leaves the metric out of the schema. A time at which readers would stop is
// refused with ErrTime, and nothing is written.
func (e *Encoder) Encode(time int64, values []float32) error {
	switch {
	case !e.ready:
		return fmt.Errorf("ftdc: encode a datum: %w", ErrNoSchema)
	case len(values) != len(e.prev):
		return fmt.Errorf("ftdc: encode a datum: %d values for the %d metrics of the schema", len(values), len(e.prev))
	case outOfOrder(e.last, time) && !e.AnyTime:
		return fmt.Errorf("ftdc: encode the datum of %d ns after that of %d ns: %w", time, e.last, ErrTime)
	}
	bits := bitBytes(len(values))
	buf := e.buf
	clear(buf[:bits])
	binary.BigEndian.PutUint64(buf[bits:], uint64(time))
	end := bits + timeBytes
	prev := e.prev
	for i, v := range values {
		d := v - prev[i]
		if d >= -epsilon && d <= epsilon {
			prev[i] = v
			continue
		}
		isUnchanged := v != v || v == prev[i] // NaN, or the same infinity
		if d != d && isUnchanged {
			continue
		}
		prev[i] = v
		bit := i + 1
		buf[bit>>3] |= 1 << (bit & 7)
		binary.BigEndian.PutUint32(buf[end:], math.Float32bits(v))
		end += valueBytes
	}
	if _, err := e.w.Write(buf[:end]); err != nil {
		return fmt.Errorf("ftdc: write a datum: %w", err)
	}
	e.last = time
	return nil
}

// EncodeDatum is Encode for a datum with names. It writes a schema first if the names differ from the names of the
// previous datum. A NaN is left out with its name.
func (e *Encoder) EncodeDatum(d *FlatDatum) error {
	e.flat = e.flat[:0]
	same := e.ready
	for i := range d.Readings {
		r := &d.Readings[i]
		if r.Value != r.Value {
			continue
		}
		n := len(e.flat)
		same = same && n < len(e.names) && e.names[n] == r.MetricName
		e.flat = append(e.flat, r.Value)
	}
	if same && len(e.flat) == len(e.names) {
		return e.Encode(d.Time, e.flat)
	}
	if outOfOrder(e.last, d.Time) && !e.AnyTime { // before the schema: no datum would follow it
		return fmt.Errorf("ftdc: encode the datum of %d ns after that of %d ns: %w", d.Time, e.last, ErrTime)
	}
	names := make([]string, 0, len(e.flat))
	for _, r := range d.Readings {
		if r.Value == r.Value {
			names = append(names, r.MetricName)
		}
	}
	if err := e.Schema(names); err != nil {
		return err
	}
	return e.Encode(d.Time, e.flat)
}
