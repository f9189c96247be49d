package ftdc

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

const benchMetrics = 200

// benchmark data: 200 metrics; one in every changes with each datum.
func benchValues(every int) (names []string, step func([]float32)) {
	for i := range benchMetrics {
		names = append(names, fmt.Sprintf("part.metric%d", i))
	}
	return names, func(values []float32) {
		for i := 0; i < len(values); i += every {
			values[i] += 3
		}
	}
}

var changing = map[string]int{"all": 1, "tenth": 10}

func BenchmarkEncode(b *testing.B) {
	for name, every := range changing {
		b.Run(name, func(b *testing.B) {
			names, step := benchValues(every)
			values := make([]float32, benchMetrics)
			enc := NewEncoder(io.Discard)
			if err := enc.schema(names); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			now := int64(0)
			for b.Loop() {
				step(values)
				now += 1e9
				if err := enc.encode(now, values); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*benchMetrics/b.Elapsed().Seconds(), "values/s")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, every := range changing {
		b.Run(name, func(b *testing.B) {
			names, step := benchValues(every)
			values := make([]float32, benchMetrics)
			var file bytes.Buffer
			enc := NewEncoder(&file)
			if err := enc.schema(names); err != nil {
				b.Fatal(err)
			}
			const data = 1000
			for i := range int64(data) {
				step(values)
				if err := enc.encode(i*1e9, values); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			r := bytes.NewReader(file.Bytes())
			dec := NewDecoder(r)
			n := 0
			for b.Loop() {
				if n++; n > data { // begin the file again
					n = 1
					r.Reset(file.Bytes())
					dec = NewDecoder(r)
				}
				if _, err := dec.Next(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*benchMetrics/b.Elapsed().Seconds(), "values/s")
		})
	}
}
