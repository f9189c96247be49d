package ftdc

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/resource-tracker/rt"
)

// A run as FTDC has the metrics of its snapshots, named after the fields of rt's
// nouns: node.mem_total, job.cpu_usage, net.eth0.rx_bytes. A figure that was not
// read is not in the schema. A float32 has 24 bits, so what it leaves of a figure
// is in a metric of the same name with this suffix.
const RestSuffix = "_rest"

// number is a field of a struct that holds a figure or, in wordsOf, a text.
type number struct {
	name  string
	index []int // of reflect.Value.FieldByIndex
}

// identities are the fields of a type that name its elements, and so are no figures.
var identities = map[reflect.Type][]string{}

var numbersByType, wordsByType sync.Map // what fieldsOf has found, []number by reflect.Type

// fieldsOf lists the fields of a struct type that are wanted and are no part of an
// element's name, in order.
func fieldsOf(known *sync.Map, t reflect.Type, wanted func(reflect.Type) bool) []number {
	if all, ok := known.Load(t); ok {
		return all.([]number)
	}
	var all []number
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && !f.Anonymous && !slices.Contains(identities[t], f.Name) && wanted(f.Type) {
			all = append(all, number{snake(f.Name), f.Index})
		}
	}
	known.Store(t, all)
	return all
}

// numbersOf lists the figures of a struct type.
func numbersOf(t reflect.Type) []number {
	return fieldsOf(&numbersByType, t, func(f reflect.Type) bool {
		switch reflect.New(f).Interface().(type) {
		case *rt.Opt[uint64], *rt.Opt[int64], *rt.Opt[float64], *rt.Opt[bool], *uint64, *float64, *bool, *rt.JobPhase:
			return true
		}
		return false
	})
}

// snake is a field's name in lower case, with _ between its words.
func snake(name string) string {
	name = strings.NewReplacer("GPUVRAM", "GpuVRAM", "VCPUs", "Vcpus", "MiB", "Mib", "CPUs", "Cpus", "GPUs", "Gpus", "SReclaimable", "Sreclaimable").Replace(name)
	var out []rune
	runes := []rune(name)
	for i, c := range runes {
		upper := unicode.IsUpper(c)
		if upper && i > 0 && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			out = append(out, '_')
		}
		out = append(out, unicode.ToLower(c))
	}
	return string(out)
}

// figure returns the value of a field, and whether it was read.
func figure(field reflect.Value) (float64, bool) {
	switch p := field.Addr().Interface().(type) {
	case *rt.Opt[uint64]:
		v, ok := p.Get()
		return whole(v), ok
	case *rt.Opt[int64]:
		v, ok := p.Get()
		return float64(v), ok
	case *rt.Opt[float64]:
		return p.Get()
	case *rt.Opt[bool]:
		v, ok := p.Get()
		return truth(v), ok
	case *uint64:
		return whole(*p), true
	case *float64:
		return *p, true
	case *bool:
		return truth(*p), true
	case *rt.JobPhase:
		return float64(*p), true
	}
	return 0, false
}

// whole is v; no limit is infinite.
func whole(v uint64) float64 {
	if v == rt.Unlimited {
		return math.Inf(1)
	}
	return float64(v)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// setFigure is the reverse of figure.
func setFigure(field reflect.Value, v float64) error {
	switch p := field.Addr().Interface().(type) {
	case *rt.Opt[uint64]:
		n, err := toWhole(v)
		p.Set(n)
		return err
	case *rt.Opt[int64]:
		if v != math.Trunc(v) || math.Abs(v) >= 1<<63 {
			return fmt.Errorf("%v is no whole number", v)
		}
		p.Set(int64(v))
	case *rt.Opt[float64]:
		p.Set(v)
	case *rt.Opt[bool]:
		p.Set(v != 0)
	case *uint64:
		n, err := toWhole(v)
		*p = n
		return err
	case *float64:
		*p = v
	case *bool:
		*p = v != 0
	case *rt.JobPhase:
		if v != math.Trunc(v) || v < 0 || v > float64(rt.JobGone) {
			return fmt.Errorf("%v is no phase of a job", v)
		}
		*p = rt.JobPhase(v)
	}
	return nil
}

func toWhole(v float64) (uint64, error) {
	switch {
	case math.IsInf(v, 1):
		return rt.Unlimited, nil
	case v != math.Trunc(v) || v < 0 || v >= 1<<64:
		return 0, fmt.Errorf("%v is no count", v)
	}
	return uint64(v), nil
}

// split returns the two float32 of a figure, exact up to 48 bits.
func split(v float64) (value, rest float32) {
	value = float32(v)
	if math.IsInf(float64(value), 0) {
		return value, 0
	}
	return value, float32(v - float64(value))
}

// join returns the figure of a metric and its rest.
func join(value, rest float32) float64 { return float64(value) + float64(rest) }
