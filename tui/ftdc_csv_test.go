package tui

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/format/ftdc"
)

func viewOf(t *testing.T, data []ftdc.FlatDatum) *FTDCView {
	t.Helper()
	var text bytes.Buffer
	enc := ftdc.NewEncoder(&text)
	for i := range data {
		if err := enc.EncodeDatum(&data[i]); err != nil {
			t.Fatal(err)
		}
	}
	return &FTDCView{files: []file{{name: "a.ftdc", text: text.Bytes()}}, from: math.MinInt64, to: math.MaxInt64}
}

func csvOf(t *testing.T, v *FTDCView) string {
	t.Helper()
	var out strings.Builder
	if err := v.WriteCSV(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Names that differ in a character that a terminal may interpret stay different, and NaN is not an empty cell.
func TestCSVNamesAndNaN(t *testing.T) {
	time := func(n byte) string { return strings.Repeat("\x00", 7) + string(n) }
	const one, nan = "\x3f\x80\x00\x00", "\x7f\xc0\x00\x00"
	text := "\x01" + `["a.x\u0001","a.x\u0002","a.x?","a.x\\u0001"]` + "\n\x1e" + time(1) + one + one + nan + one + "\x01" + `["a.x\u0001"]` + "\n\x02" + time(2) + nan
	v := &FTDCView{files: []file{{name: "a.ftdc", text: []byte(text)}}, from: math.MinInt64, to: math.MaxInt64}
	want := `time,a.x\u0001,a.x\u0002,a.x?,a.x\\u0001` + "\n1970-01-01T00:00:00.000000001Z,1,1,NaN,1\n1970-01-01T00:00:00.000000002Z,NaN,,,\n"
	if got := csvOf(t, v); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// In a file of another program x_rest is a metric like each other one.
func TestRestOfForeignFiles(t *testing.T) {
	data := func(more ...ftdc.Reading) []ftdc.FlatDatum {
		return []ftdc.FlatDatum{{Time: 1e9, Readings: append([]ftdc.Reading{{MetricName: "a.x", Value: 1}, {MetricName: "a.x_rest", Value: 0.5}}, more...)}}
	}
	if got := csvOf(t, viewOf(t, data())); !strings.HasPrefix(got, "time,a.x,a.x_rest\n") || !strings.HasSuffix(got, ",1,0.5\n") {
		t.Errorf("foreign: %s", got)
	}
	if got := csvOf(t, viewOf(t, data(ftdc.Reading{MetricName: "run_info.user=ada"}))); !strings.HasPrefix(got, "time,a.x,run_info.user=ada\n") || !strings.Contains(got, ",1.5,") {
		t.Errorf("our own: %s", got)
	}
}
