package main

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"unicode"

	"github.com/resource-tracker/rt"
)

// A run as FTDC has the metrics of its snapshots, named after the fields of rt's
// nouns: node.mem_total, job.cpu_usage, net.eth0.rx_bytes. A figure that was not
// read is not in the schema. A float32 has 24 bits, so what it leaves of a figure
// is in a metric of the same name with this suffix.
const restSuffix = "_rest"

// number is a field of a struct that holds a figure.
type number struct {
	name  string
	index []int // of reflect.Value.FieldByIndex
}

var numbersByType sync.Map // what numbersOf has found, []number by reflect.Type

// numbersOf lists the figures of a struct type in order.
func numbersOf(t reflect.Type) []number {
	if all, ok := numbersByType.Load(t); ok {
		return all.([]number)
	}
	var all []number
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		switch reflect.New(f.Type).Interface().(type) {
		case *rt.Opt[uint64], *rt.Opt[int64], *rt.Opt[float64], *rt.Opt[bool], *uint64, *float64, *bool, *rt.JobPhase:
			all = append(all, number{snake(f.Name), f.Index})
		}
	}
	numbersByType.Store(t, all)
	return all
}

// snake is a field's name in lower case, with _ between its words.
func snake(name string) string {
	name = strings.NewReplacer("GPUVRAM", "GpuVRAM", "CPUs", "Cpus", "GPUs", "Gpus", "SReclaimable", "Sreclaimable").Replace(name)
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

// split gives the two float32 of a figure, and join the figure: exact up to 48 bits.
func split(v float64) (value, rest float32) {
	value = float32(v)
	if math.IsInf(float64(value), 0) {
		return value, 0
	}
	return value, float32(v - float64(value))
}

func join(value, rest float32) float64 { return float64(value) + float64(rest) }

// part is a kind of device of a snapshot: a slice, one metric per field and element.
type part struct {
	kind string // the first word of its metrics
	// in returns the slice of s.
	in func(s *rt.Snapshot) reflect.Value
	// key names an element; it may hold dots. named makes the element of a key.
	key   func(element reflect.Value) string
	named func(key string, element reflect.Value) error
}

// fixed are the structs of a snapshot that are there once.
func fixed(s *rt.Snapshot) [4]struct {
	kind string
	v    reflect.Value
} {
	return [...]struct {
		kind string
		v    reflect.Value
	}{
		{"node", reflect.ValueOf(&s.Node).Elem()}, {"job", reflect.ValueOf(&s.Job).Elem()},
		{"gpus", reflect.ValueOf(&s.GPU).Elem()}, {"tree", reflect.ValueOf(&s.Tree).Elem()},
	}
}

// devicePart is a part whose elements are named by the given text or number fields,
// with a slash between them. The last may hold slashes.
func devicePart[T any](kind string, in func(*rt.Snapshot) *[]T, fields ...string) part {
	return part{
		kind: kind,
		in:   func(s *rt.Snapshot) reflect.Value { return reflect.ValueOf(in(s)).Elem() },
		key: func(element reflect.Value) string {
			words := make([]string, len(fields))
			for i, f := range fields {
				words[i] = keyText(element.FieldByName(f))
			}
			return strings.Join(words, "/")
		},
		named: func(key string, element reflect.Value) error {
			words := strings.SplitN(key, "/", len(fields))
			if len(words) != len(fields) {
				return fmt.Errorf("%q does not name a %s: it is %s", key, kind, strings.Join(fields, "/"))
			}
			for i, f := range fields {
				if err := setKeyText(element.FieldByName(f), words[i]); err != nil {
					return fmt.Errorf("%q does not name a %s: %w", key, kind, err)
				}
			}
			return nil
		},
	}
}

// keyText is a field of an element's name; what is absent is empty.
func keyText(v reflect.Value) string {
	switch p := v.Addr().Interface().(type) {
	case *rt.Opt[uint64]:
		if n, ok := p.Get(); ok {
			return fmt.Sprint(n)
		}
		return ""
	}
	return strings.ToValidUTF8(fmt.Sprint(v.Interface()), "?")
}

func setKeyText(v reflect.Value, text string) error {
	switch p := v.Addr().Interface().(type) {
	case *rt.Opt[uint64]:
		var n uint64
		if text == "" {
			return nil
		}
		_, err := fmt.Sscan(text, &n)
		p.Set(n)
		return err
	}
	if v.Kind() == reflect.String {
		v.SetString(text)
		return nil
	}
	_, err := fmt.Sscan(text, v.Addr().Interface())
	return err
}

// parts are the devices and steps that go into a file. Processes come and go too
// often: every change would be a schema.
var parts = []part{
	devicePart("cpu", func(s *rt.Snapshot) *[]rt.CPUReading { return &s.CPUs }, "CPU"),
	devicePart("net", func(s *rt.Snapshot) *[]rt.NetReading { return &s.Nets }, "Name"),
	devicePart("disk", func(s *rt.Snapshot) *[]rt.DiskReading { return &s.Disks }, "Name"),
	devicePart("mount", func(s *rt.Snapshot) *[]rt.MountReading { return &s.Mounts }, "Disk", "FSType", "MountPoint"),
	devicePart("gpu", func(s *rt.Snapshot) *[]rt.GPUReading { return &s.GPUs }, "UUID"),
	devicePart("fabric", func(s *rt.Snapshot) *[]rt.FabricReading { return &s.Fabrics }, "Port", "Device"),
	devicePart("remotefs", func(s *rt.Snapshot) *[]rt.RemoteFSReading { return &s.RemoteFS }, "Kind", "Source", "MountPoint"),
	devicePart("step", func(s *rt.Snapshot) *[]rt.StepReading { return &s.Steps }, "Task", "Step"),
	devicePart("energy", func(s *rt.Snapshot) *[]rt.EnergyReading { return &s.Energy }, "Source", "Kind", "Domain"),
}
