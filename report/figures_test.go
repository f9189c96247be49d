package report

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

// fillFigures sets each field below v to another value.
func fillFigures(v reflect.Value, n *int64) {
	*n++
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		*p = time.Unix(*n, 0).UTC()
		return
	case *rt.Opt[uint64]:
		p.Set(uint64(*n))
		return
	case *rt.Opt[int64]:
		p.Set(*n)
		return
	case *rt.Opt[float64]:
		p.Set(float64(*n))
		return
	case *rt.Opt[bool]:
		p.Set(true)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(string(rune('a'+*n%26)) + "x")
	case reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Int64:
		v.SetInt(*n)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fillFigures(v.Index(i), n)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fillFigures(v.Field(i), n)
		}
	}
}

// The figures go through a summary and back, and have the names and values of its JSON.
func TestRunFiguresArePartOfTheSummary(t *testing.T) {
	var f RunFigures
	var n int64
	fillFigures(reflect.ValueOf(&f).Elem(), &n)
	f.Label = f.Run.Label()
	s := f.Summary()
	if got := s.Figures(); !reflect.DeepEqual(got, &f) {
		t.Errorf("%s", cmp.Diff(f, *got))
	}
	part, whole := asJSON(t, f), asJSON(t, s)
	checkPart(t, "", part, whole)
}

func asJSON(t *testing.T, v any) (out map[string]any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func checkPart(t *testing.T, at string, part, whole any) {
	t.Helper()
	switch p := part.(type) {
	case map[string]any:
		w, _ := whole.(map[string]any)
		for name := range p {
			checkPart(t, at+"."+name, p[name], w[name])
		}
	case []any:
		w, _ := whole.([]any)
		for i := range p {
			if i >= len(w) {
				t.Fatalf("%s has %d elements, not %d", at, len(w), len(p))
			}
			checkPart(t, at, p[i], w[i])
		}
	default:
		if part == nil || part != whole {
			t.Errorf("%s is %v, in the summary %v", at, part, whole)
		}
	}
}
