package ftdc

import (
	"io"
	"math"
	"slices"
	"time"
)

// FlatDatum has the readings of one time. The names of nested figures are joined by dots, as in
// the file: {"webrtc": {"connections": 5}} is "webrtc.connections".
type FlatDatum struct {
	Time     int64 // nanoseconds since the epoch
	Readings []Reading
}

// Reading is one value and the name of its metric.
type Reading struct {
	MetricName string // with a dot
	Value      float32
}

// ConvertedTime is Time in UTC.
func (d *FlatDatum) ConvertedTime() time.Time { return time.Unix(0, d.Time).UTC() }

// Parse reads a whole file. If the file is cut or damaged, it returns the datums before that
// place, and a *SyntaxError with the place. A datum without changes shares the readings of the
// previous datum: do not modify them. A reading takes 24 bytes for at least one bit of the file.
// A Decoder reads a file of any length in little memory.
func Parse(r io.Reader) ([]FlatDatum, error) {
	dec := NewDecoder(r)
	var all []FlatDatum
	var before []float32
	schemas := 0
	for {
		t, err := dec.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		isNew := dec.Schemas() != schemas
		schemas = dec.Schemas()
		d := FlatDatum{Time: t}
		if isNew || !slices.EqualFunc(before, dec.Values(), sameBits) {
			before = slices.Clone(dec.Values())
			d.Readings = make([]Reading, len(before))
			for i, name := range dec.Names() {
				d.Readings[i] = Reading{name, before[i]}
			}
		} else {
			d.Readings = all[len(all)-1].Readings
		}
		all = append(all, d)
	}
}

// sameBits distinguishes signed zeros and NaNs.
func sameBits(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
