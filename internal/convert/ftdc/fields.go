package ftdc

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// RestSuffix ends the name of the metric that holds the rest of another one. A float32
// has 24 bits; what it cannot hold of a figure is in the rest. A figure that was not read
// has no metric in the schema.
const RestSuffix = "_rest"

// field is a named field of a struct of rt.
type field struct {
	name string
	at   any // a pointer to a figure or a text
}

// figure returns the value of a figure, and false if it was not read.
func (f field) figure() (float64, bool) {
	switch p := f.at.(type) {
	case *rt.Opt[uint64]:
		v, ok := p.Get()
		return fromCount(v), ok
	case *rt.Opt[int64]:
		v, ok := p.Get()
		return float64(v), ok
	case *rt.Opt[float64]:
		return p.Get()
	case *rt.Opt[bool]:
		v, ok := p.Get()
		return fromBool(v), ok
	case *uint64:
		return fromCount(*p), true
	case *float64:
		return *p, true
	case *bool:
		return fromBool(*p), true
	case *rt.JobPhase:
		return float64(*p), true
	}
	return 0, false
}

// setFigure is the reverse of figure.
func (f field) setFigure(v float64) error {
	switch p := f.at.(type) {
	case *rt.Opt[uint64]:
		n, err := toCount(v)
		p.Set(n)
		return err
	case *rt.Opt[int64]:
		if v != math.Trunc(v) || math.Abs(v) >= 1<<63 {
			return fmt.Errorf("%v is not a whole number", v)
		}
		p.Set(int64(v))
	case *rt.Opt[float64]:
		p.Set(v)
	case *rt.Opt[bool]:
		p.Set(v != 0)
	case *uint64:
		n, err := toCount(v)
		*p = n
		return err
	case *float64:
		*p = v
	case *bool:
		*p = v != 0
	case *rt.JobPhase:
		if v != math.Trunc(v) || v < 0 || v > float64(rt.JobGone) {
			return fmt.Errorf("%v is not a phase of a job", v)
		}
		*p = rt.JobPhase(v)
	}
	return nil
}

// clear makes an optional figure absent.
func (f field) clear() {
	switch p := f.at.(type) {
	case *rt.Opt[uint64]:
		p.Clear()
	case *rt.Opt[float64]:
		p.Clear()
	}
}

// fromCount returns v as a float64. Unlimited is infinite.
func fromCount(v uint64) float64 {
	if v == rt.Unlimited {
		return math.Inf(1)
	}
	return float64(v)
}

func fromBool(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// toCount is the reverse of fromCount.
func toCount(v float64) (uint64, error) {
	switch {
	case math.IsInf(v, 1):
		return rt.Unlimited, nil
	case v != math.Trunc(v) || v < 0 || v >= 1<<64:
		return 0, fmt.Errorf("%v is not a count", v)
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

// join is the reverse of split.
func join(value, rest float32) float64 { return float64(value) + float64(rest) }

// eachText calls yield with each text that is not empty; those of a map are named field.key.
func eachText(texts []field, yield func(name, text string)) {
	for _, f := range texts {
		switch p := f.at.(type) {
		case *string:
			if *p != "" {
				yield(f.name, *p)
			}
		case *map[string]string:
			for _, key := range slices.Sorted(maps.Keys(*p)) {
				if text := (*p)[key]; text != "" {
					yield(f.name+"."+key, text)
				}
			}
		}
	}
}

// setText is the reverse of eachText. It ignores unknown names: they are from a newer version.
func setText(texts []field, name, text string) {
	for _, f := range texts {
		switch p := f.at.(type) {
		case *string:
			if name == f.name {
				*p = text
			}
		case *map[string]string:
			key, ok := strings.CutPrefix(name, f.name+".")
			if !ok || text == "" {
				continue
			}
			if *p == nil {
				*p = map[string]string{}
			}
			(*p)[key] = text
		}
	}
}
