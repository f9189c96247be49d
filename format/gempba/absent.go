package gempba

import (
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// Clients of GemPBA expect a number in each numeric field. A value that was not read is therefore
// written as 0, as GemPBA does for unknown values. The list "rt_unread" of the same object has the
// name of the field, and Parse makes the value absent again.

// figure is a *rt.Opt of a number.
type figure interface {
	Valid() bool
	Clear()
	UnmarshalJSON([]byte) error
}

// eachFigure visits the figures of a struct with their names in JSON. In the name of a figure of a
// nested struct the name of the struct precedes, with a dot.
func eachFigure(of reflect.Value, prefix string, visit func(name string, f figure)) {
	for field, value := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if f, ok := value.Addr().Interface().(figure); ok {
			visit(prefix+name, f)
		} else if value.Kind() == reflect.Struct {
			eachFigure(value, prefix+name+".", visit)
		}
	}
}

// zeroUnread sets the absent figures of a struct to 0 and returns their names. JSON has no number for
// values that are not finite: they are absent too.
func zeroUnread(of any) (names []string) {
	eachFigure(reflect.ValueOf(of).Elem(), "", func(name string, f figure) {
		isFinite := true
		if v, ok := f.(*rt.Opt[float64]); ok {
			isFinite = !math.IsNaN(v.Or(0)) && !math.IsInf(v.Or(0), 0)
		}
		if !f.Valid() || !isFinite {
			_ = f.UnmarshalJSON([]byte("0")) // all figures are numbers
			names = append(names, name)
		}
	})
	return names
}

// clearUnread makes the named figures of a struct absent, and drops the names.
func clearUnread(of any, names *[]string) {
	if len(*names) > 0 {
		eachFigure(reflect.ValueOf(of).Elem(), "", func(name string, f figure) {
			if slices.Contains(*names, name) {
				f.Clear()
			}
		})
	}
	*names = nil
}
