package hostfacts

import (
	"reflect"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// field is one of rt.Host by its name in the specification.
type field struct {
	name  string
	value reflect.Value // can be set
}

func fields(h *rt.Host) []field {
	v := reflect.ValueOf(h).Elem()
	var out []field
	for f, value := range v.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, field{name, value})
	}
	return out
}

// Suppressed returns the names of the fields that the environment suppresses: for
// each there is a variable, its upper-case name with the prefix TRACKER_, and "0"
// or an empty value keeps the field to the user (TRACKER_HOST_IP=0).
func Suppressed(env Lookup) []string {
	var names []string
	for _, f := range fields(new(rt.Host)) {
		if v, set := env("TRACKER_" + strings.ToUpper(f.name)); set && (v == "" || v == "0") {
			names = append(names, f.name)
		}
	}
	return names
}

// Drop returns h without the named fields.
func Drop(h rt.Host, names []string) rt.Host {
	for _, f := range fields(&h) {
		if slices.Contains(names, f.name) {
			f.value.SetZero()
		}
	}
	return h
}

// allOfCloud says whether no field is left that only a cloud can tell.
func allOfCloud(suppressed []string) bool {
	for _, f := range fields(new(rt.Host)) {
		if strings.HasPrefix(f.name, "cloud_") && !slices.Contains(suppressed, f.name) {
			return false
		}
	}
	return true
}
