package lake

import (
	"encoding/json"
	"math"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/resource-tracker/rt"
)

// The types of columns. Each value may be null. Counters and times grow evenly, for which differences are
// the smallest encoding; texts repeat.
func intNode() parquet.Node {
	return parquet.Optional(parquet.Encoded(parquet.Int(64), &parquet.DeltaBinaryPacked))
}

func floatNode() parquet.Node { return parquet.Optional(parquet.Leaf(parquet.DoubleType)) }
func boolNode() parquet.Node  { return parquet.Optional(parquet.Leaf(parquet.BooleanType)) }

func textNode() parquet.Node {
	return parquet.Optional(parquet.Encoded(parquet.String(), &parquet.RLEDictionary))
}

func timeNode() parquet.Node {
	return parquet.Optional(parquet.Encoded(parquet.Timestamp(parquet.Microsecond), &parquet.DeltaBinaryPacked))
}

// integer is the value of an unsigned figure. Parquet's unsigned integers are decimals in Spark, so
// the lake has signed ones. A value that does not fit, such as a limit that is none, is the
// largest.
func integer(v uint64) parquet.Value { return parquet.Int64Value(int64(min(v, math.MaxInt64))) }

func text(s string) parquet.Value { return parquet.ValueOf(s) }

func moment(t time.Time) parquet.Value { return parquet.Int64Value(t.UnixMicro()) }

// unit is the unit of a figure in the lake: sizes that a spool file has in KiB are in bytes.
func unit(u rt.Unit) rt.Unit {
	if u == rt.KiB {
		return rt.Bytes
	}
	return u
}

// Description describes a column. The metadata of a file of samples has the descriptions, as a JSON object with
// the names of the columns, under the key DescriptionKey.
type Description struct {
	Unit string `json:"unit,omitempty"` // as in the end of the name; empty: a count or a text
	Kind string `json:"kind,omitempty"` // "gauge", "counter", "peak" or "limit"
}

// DescriptionKey is the key of the descriptions of columns in the metadata of a file.
const DescriptionKey = "rt.columns"

func kindName(k rt.Kind) string {
	return map[rt.Kind]string{rt.Gauge: "gauge", rt.Counter: "counter", rt.Peak: "peak", rt.Limit: "limit"}[k]
}

func encodeDescriptions(all map[string]Description) string {
	text, err := json.Marshal(all)
	if err != nil { // maps of texts have none
		return ""
	}
	return string(text)
}
