package ftdc

import (
	"reflect"
	"strings"

	"github.com/resource-tracker/rt"
)

// targets are the places of a snapshot with the devices of a schema.
type targets struct {
	s       *rt.Snapshot
	element map[string]reflect.Value // by kind and key
	held    rt.Snapshot              // the guests of the schema, read now or not
	read    map[string]*uint64       // what was read of each, by kind and key
	reads   map[*part][]*uint64      // and in the order of held
	times   rt.CPUTimes
	err     error
}

// newTargets makes the devices that names speak of in s, with their texts.
func newTargets(s *rt.Snapshot, names []string, texts map[string]map[string]string) *targets {
	t := &targets{s: s, element: map[string]reflect.Value{}, read: map[string]*uint64{}, reads: map[*part][]*uint64{}}
	for i := range parts {
		p := &parts[i]
		keys := keysOf(p, names)
		all := t.of(p)
		all.Set(reflect.MakeSlice(all.Type(), len(keys), len(keys)))
		for k, key := range keys {
			prefix := p.kind + "." + key
			if err := p.named(key, all.Index(k)); err != nil && t.err == nil {
				t.err = err
			}
			t.element[prefix] = all.Index(k)
			if p.guest {
				t.read[prefix] = new(uint64)
				t.reads[p] = append(t.reads[p], t.read[prefix])
			}
			for name, text := range texts[prefix] {
				setWord(all.Index(k), name, text)
			}
		}
	}
	return t
}

// of is the list that the elements of a part are made in.
func (t *targets) of(p *part) reflect.Value {
	if p.guest {
		return p.in(&t.held)
	}
	return p.in(t.s)
}

// keysOf are the elements of a part, in the order of their metrics.
func keysOf(p *part, names []string) (keys []string) {
	seen := map[string]bool{}
	for _, n := range names {
		if key, _, ok := deviceOf(p, n); ok && !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	return keys
}

// guests puts those into the snapshot that were read now.
func (t *targets) guests(s *rt.Snapshot) {
	for i := range parts {
		p := &parts[i]
		if !p.guest {
			continue
		}
		to, held := p.in(s), p.in(&t.held)
		to.SetLen(0)
		for k := range held.Len() {
			read := *t.reads[p][k]
			if read&1 == 0 {
				continue
			}
			to.Set(reflect.Append(to, held.Index(k)))
			element := to.Index(to.Len() - 1)
			for n, number := range numbersOf(element.Type()) {
				if read&(2<<n) == 0 {
					element.FieldByIndex(number.index).SetZero()
				}
			}
		}
	}
}

// deviceOf takes <kind>.<key>.<field> apart. The key may hold dots, the field none.
func deviceOf(p *part, name string) (key, field string, ok bool) {
	rest, ok := strings.CutPrefix(name, p.kind+".")
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot < 0 {
		return "", "", false
	}
	return rest[:dot], rest[dot+1:], true
}

// find returns what sets a figure of the snapshot, nil where it has no such one.
func (t *targets) find(name string) (func(float64) error, error) {
	if t.err != nil {
		return nil, t.err
	}
	for _, f := range fixed(t.s) {
		if field, ok := strings.CutPrefix(name, f.kind+"."); ok {
			if tick, isTimes := strings.CutPrefix(field, "cpu."); isTimes && f.kind == "node" {
				return t.nodeTimes(tick), nil
			}
			return setterOf(f.v, field), nil
		}
	}
	for i := range parts {
		key, field, ok := deviceOf(&parts[i], name)
		if !ok {
			continue
		}
		prefix := parts[i].kind + "." + key
		if read := t.read[prefix]; read != nil && field == readMetric {
			return func(v float64) (err error) { *read, err = toWhole(v); return err }, nil
		}
		element := t.element[prefix]
		if times := element.FieldByName("Times"); times.IsValid() {
			element = times
		}
		return setterOf(element, field), nil
	}
	return nil, nil
}

// nodeTimes sets one of the node's tick counters, which come together.
func (t *targets) nodeTimes(field string) func(float64) error {
	set := setterOf(reflect.ValueOf(&t.times).Elem(), field)
	if set == nil {
		return nil
	}
	return func(v float64) error {
		err := set(v)
		t.s.Node.CPU.Set(t.times)
		return err
	}
}

func setterOf(v reflect.Value, field string) func(float64) error {
	for _, n := range numbersOf(v.Type()) {
		if n.name == field {
			f := v.FieldByIndex(n.index)
			return func(v float64) error { return setFigure(f, v) }
		}
	}
	return nil
}
