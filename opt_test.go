package rt

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestOpt(t *testing.T) {
	var o Opt[uint64]
	if o.Valid() || !o.IsZero() || o.Or(7) != 7 {
		t.Errorf("the zero value is not absent: %+v", o)
	}
	o.Set(0)
	if v, ok := o.Get(); !ok || v != 0 || o.IsZero() || o.Or(7) != 0 {
		t.Errorf("a zero that was read is taken for an absent value: %+v", o)
	}
	o.Set(5)
	o.Clear()
	if o != None[uint64]() {
		t.Errorf("Clear left %+v", o)
	}
}

func TestOptJSON(t *testing.T) {
	type doc struct {
		A Opt[uint64]  `json:"a"`
		B Opt[float64] `json:"b"`
		C Opt[string]  `json:"c,omitzero"`
	}
	in := doc{A: Some[uint64](18446744073709551615)}
	b, err := json.Marshal(in)
	if err != nil || string(b) != `{"a":18446744073709551615,"b":null}` {
		t.Fatalf("%s, %v", b, err)
	}
	for _, v := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		if b, err := json.Marshal(Some(v)); err != nil || string(b) != "null" {
			t.Errorf("%v: %s, %v", v, b, err)
		}
	}
	out := doc{B: Some(1.5), C: Some("old")}
	if err := json.Unmarshal([]byte(`{"a":18446744073709551615,"b":null}`), &out); err != nil {
		t.Fatal(err)
	}
	if out.A != in.A || out.B.Valid() || out.C != Some("old") {
		t.Errorf("%+v", out)
	}
	err = json.Unmarshal([]byte(`{"a":"x"}`), &out)
	if err == nil || !strings.Contains(err.Error(), "cannot unmarshal string") {
		t.Errorf("a string as a number: %v", err)
	}
}
