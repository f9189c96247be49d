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

// Suppressed returns the names of the fields that the environment suppresses. The variable
// of a field is TRACKER_ and its name in upper case; "0" or an empty value suppresses the
// field (TRACKER_HOST_IP=0).
func Suppressed(env Lookup) []string {
	var names []string
	for _, f := range fields(new(rt.Host)) {
		v, isSet := env("TRACKER_" + strings.ToUpper(f.name))
		isOff := v == "" || v == "0"
		if isSet && isOff {
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

// allOfCloud reports whether all fields that come from a cloud are suppressed.
func allOfCloud(suppressed []string) bool {
	for _, f := range fields(new(rt.Host)) {
		if strings.HasPrefix(f.name, "cloud_") && !slices.Contains(suppressed, f.name) {
			return false
		}
	}
	return true
}
