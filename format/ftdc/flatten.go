package ftdc

import (
	"cmp"
	"reflect"
	"slices"
)

// flatten appends the numbers of v, which has the name name: a number itself, the exported
// fields of a struct in order, the entries of a map with text keys by name. A bool is
// 0 or 1. A nil pointer or interface has none; neither has a value of another kind.
func flatten(dst []Reading, name string, v reflect.Value) []Reading {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch {
	case !v.IsValid():
	case v.CanUint():
		dst = append(dst, Reading{name, float32(v.Uint())})
	case v.CanInt():
		dst = append(dst, Reading{name, float32(v.Int())})
	case v.CanFloat():
		dst = append(dst, Reading{name, float32(v.Float())})
	case v.Kind() == reflect.Bool:
		r := Reading{MetricName: name}
		if v.Bool() {
			r.Value = 1
		}
		dst = append(dst, r)
	case v.Kind() == reflect.Struct:
		for field, value := range v.Fields() {
			if field.IsExported() {
				dst = flatten(dst, name+"."+field.Name, value)
			}
		}
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		begin := len(dst)
		for key, value := range v.Seq2() {
			dst = flatten(dst, name+"."+key.String(), value)
		}
		slices.SortStableFunc(dst[begin:], func(a, b Reading) int { return cmp.Compare(a.MetricName, b.MetricName) })
	}
	return dst
}
