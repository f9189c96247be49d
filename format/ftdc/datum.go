package ftdc

import "time"

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
