package ftdc

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
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

	w      io.Writer
	names  []string  // of the schema; nil before the first one
	prev   []float32 // values of the previous datum
	last   int64     // its time
	buf    []byte
	values []float32 // of EncodeDatum
}

// NewEncoder returns an Encoder at the start of a file.
func NewEncoder(w io.Writer) *Encoder { return &Encoder{w: w} }

// EncodeDatum writes a datum. It writes a schema first if the names differ from the names of the previous datum. Every
// name has a dot. A NaN is left out with its name. A value is written if it differs by more than 1e-9 from the
// previous value. A time at which readers would stop is refused with ErrTime, and nothing is written.
func (e *Encoder) EncodeDatum(d *FlatDatum) error {
	if outOfOrder(e.last, d.Time) && !e.AnyTime {
		return fmt.Errorf("ftdc: encode the datum of %d ns after %d ns: %w", d.Time, e.last, ErrTime)
	}
	e.values = e.values[:0]
	isSame := e.names != nil
	for i := range d.Readings {
		r := &d.Readings[i]
		if r.Value != r.Value {
			continue
		}
		n := len(e.values)
		isSame = isSame && n < len(e.names) && e.names[n] == r.MetricName
		e.values = append(e.values, r.Value)
	}
	if isSame && len(e.values) == len(e.names) {
		return e.encode(d.Time, e.values)
	}
	names := make([]string, 0, len(e.values))
	for _, r := range d.Readings {
		if r.Value == r.Value {
			names = append(names, r.MetricName)
		}
	}
	if err := e.schema(names); err != nil {
		return err
	}
	return e.encode(d.Time, e.values)
}

// schema writes the metrics of the next datums.
func (e *Encoder) schema(names []string) error {
	for _, n := range names {
		switch {
		case !strings.Contains(n, "."):
			return fmt.Errorf("ftdc: metric %q: %w", n, ErrName)
		case !utf8.ValidString(n):
			return fmt.Errorf("ftdc: metric %q: the name is not UTF-8", n)
		}
	}
	doc := bytes.NewBuffer([]byte{schemaByte})
	if err := json.NewEncoder(doc).Encode(names); err != nil {
		return fmt.Errorf("ftdc: encode the schema: %w", err)
	}
	if _, err := e.w.Write(doc.Bytes()); err != nil {
		return fmt.Errorf("ftdc: write the schema: %w", err)
	}
	e.names, e.prev = names, make([]float32, len(names))
	e.buf = make([]byte, bitBytes(len(names))+timeBytes+valueBytes*len(names))
	return nil
}

// encode writes a datum with a value for each metric of the schema.
func (e *Encoder) encode(time int64, values []float32) error {
	bits := bitBytes(len(values))
	clear(e.buf[:bits])
	binary.BigEndian.PutUint64(e.buf[bits:], uint64(time))
	end := bits + timeBytes
	for i, v := range values {
		d := v - e.prev[i]
		isNear := d >= -epsilon && d <= epsilon
		isSame := isNear || v == e.prev[i] // the latter for an infinity
		e.prev[i] = v
		if isSame {
			continue
		}
		bit := i + 1
		e.buf[bit>>3] |= 1 << (bit & 7)
		binary.BigEndian.PutUint32(e.buf[end:], math.Float32bits(v))
		end += valueBytes
	}
	if _, err := e.w.Write(e.buf[:end]); err != nil {
		return fmt.Errorf("ftdc: write a datum: %w", err)
	}
	e.last = time
	return nil
}
