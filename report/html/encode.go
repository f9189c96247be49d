package html

import (
	"encoding/base64"
	"encoding/binary"
)

// packedLine is a line in the page's data.
type packedLine struct {
	Figure string  `json:"f"`
	Name   string  `json:"n"`
	Scale  float64 `json:"s"` // of the numbers in Data
	Max    float64 `json:"m"` // highest value
	Data   string  `json:"d"` // see pack
}

// packed are the lines of a run in the page's data.
type packed struct {
	Points int          `json:"points"`
	Times  string       `json:"times"` // milliseconds since the epoch, see pack
	Lines  []packedLine `json:"lines"`
	// Readings is the number of readings. PerPoint is the number of readings in each pair of
	// points; 0 if each reading is a point.
	Readings int `json:"readings"`
	PerPoint int `json:"perPoint"`
}

// pack encodes values in base64. Each is the difference from the previous present value, as a varint with the sign in
// the lowest bit, plus 1. The number 0 is an absent value.
func pack(values []int64) string {
	buf := make([]byte, 0, 2*len(values))
	last := int64(0)
	for _, v := range values {
		if v == absent {
			buf = append(buf, 0)
			continue
		}
		d := v - last
		last = v
		buf = binary.AppendUvarint(buf, uint64(d<<1^d>>63)+1)
	}
	return base64.StdEncoding.EncodeToString(buf)
}

// pack encodes the lines within a budget in bytes. If they do not fit, they are thinned.
func (s *Series) pack(budget int) packed {
	const fewest, margin = 100, 0.95
	fitting := s
	for {
		p := fitting.packAll()
		size := len(p.Times)
		for i := range p.Lines {
			size += len(p.Lines[i].Data)
		}
		if size <= budget || p.Points <= fewest {
			return p
		}
		fitting = s.thin(max(int(float64(p.Points)*float64(budget)/float64(size)*margin), fewest))
	}
}

func (s *Series) packAll() packed {
	p := packed{Points: len(s.times), Times: pack(s.times), Readings: s.readings, PerPoint: s.perPoint}
	for _, l := range s.lines {
		top := int64(0)
		for _, v := range l.values {
			top = max(top, v)
		}
		p.Lines = append(p.Lines, packedLine{l.figure, l.name, l.scale, float64(top) * l.scale, pack(l.values)})
	}
	return p
}

// thin returns the series with at most so many points. Consecutive readings become two points: the lowest and the
// highest value of each line, in their order. Their times are the first and the last reading. So no peak disappears.
func (s *Series) thin(points int) *Series {
	const pair = 2
	each := max((len(s.times)*pair+points-1)/points, pair+1)
	out := &Series{lanes: s.lanes, readings: s.readings, perPoint: each}
	for from := 0; from < len(s.times); from += each {
		to := min(from+each, len(s.times))
		out.times = append(out.times, s.times[from])
		if to-from > 1 {
			out.times = append(out.times, s.times[to-1])
		}
	}
	for _, l := range s.lines {
		t := &line{figure: l.figure, name: l.name, scale: l.scale}
		for from := 0; from < len(l.values); from += each {
			part := l.values[from:min(from+each, len(l.values))]
			first, second := extremes(part)
			t.values = append(t.values, first)
			if len(part) > 1 {
				t.values = append(t.values, second)
			}
		}
		out.lines = append(out.lines, t)
	}
	return out
}

// extremes returns the lowest and the highest of the values that are present, in the order in
// which they occur; absent if none is.
func extremes(values []int64) (first, second int64) {
	low, high := -1, -1
	for i, v := range values {
		if v == absent {
			continue
		}
		if low < 0 || v < values[low] {
			low = i
		}
		if high < 0 || v > values[high] {
			high = i
		}
	}
	if low < 0 {
		return absent, absent
	}
	return values[min(low, high)], values[max(low, high)]
}
