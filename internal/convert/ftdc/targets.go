package ftdc

import (
	"fmt"
	"strings"

	"github.com/resource-tracker/rt"
)

// targets has the fields of a snapshot that the metrics of a schema go to.
type targets struct {
	s       *rt.Snapshot
	figures map[string][]field  // of the elements of lists, by kind and key
	held    rt.Snapshot         // the processes of the schema, whether they were read now or not
	read    map[string]*uint64  // what was read of each process, by kind and key
	reads   map[*part][]*uint64 // the same in the order of held
	times   rt.CPUTimes
	err     error
}

// newTargets creates the devices in s that the metrics are of, with their texts.
func newTargets(s *rt.Snapshot, names []string, texts map[string]map[string]string) *targets {
	t := &targets{s: s, figures: map[string][]field{}, read: map[string]*uint64{}, reads: map[*part][]*uint64{}}
	for i := range parts {
		p := &parts[i]
		keys := keysOf(p, names)
		to := s
		if p.transient {
			to = &t.held
		}
		p.resize(to, len(keys))
		for k, key := range keys {
			prefix := p.kind + "." + key
			element := p.at(to, k)
			if err := element.setName(key); err != nil && t.err == nil {
				t.err = fmt.Errorf("the name of a %s: %w", p.kind, err)
			}
			t.figures[prefix] = element.figures
			if p.transient {
				t.read[prefix] = new(uint64)
				t.reads[p] = append(t.reads[p], t.read[prefix])
			}
			for name, text := range texts[prefix] {
				setText(element.texts, name, text)
			}
		}
	}
	return t
}

// keysOf returns the keys of the elements of a part, in the order of their metrics.
func keysOf(p *part, names []string) (keys []string) {
	seen := map[string]bool{}
	for _, n := range names {
		if key, _, ok := p.cut(n); ok && !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	return keys
}

// processes copies the processes that were read now into the snapshot.
func (t *targets) processes(s *rt.Snapshot) {
	for i := range parts {
		p := &parts[i]
		if !p.transient {
			continue
		}
		p.resize(s, 0)
		for k := range p.len(&t.held) {
			read := *t.reads[p][k]
			if read&1 == 0 {
				continue
			}
			p.move(s, &t.held, k)
			for n, f := range p.at(s, p.len(s)-1).figures {
				if read&(2<<n) == 0 {
					f.clear()
				}
			}
		}
	}
}

// find returns the function that sets a figure of the snapshot, nil if it has none of that name.
func (t *targets) find(name string) (func(float64) error, error) {
	if t.err != nil {
		return nil, t.err
	}
	for _, f := range fixed(t.s) {
		if field, ok := strings.CutPrefix(name, f.kind+"."); ok {
			if tick, isTimes := strings.CutPrefix(field, "cpu."); isTimes && f.kind == "node" {
				return t.nodeTimes(tick), nil
			}
			return setterOf(f.figures, field), nil
		}
	}
	for i := range parts {
		key, field, ok := parts[i].cut(name)
		if !ok {
			continue
		}
		prefix := parts[i].kind + "." + key
		if read := t.read[prefix]; read != nil && field == readMetric {
			return func(v float64) (err error) { *read, err = toCount(v); return err }, nil
		}
		return setterOf(t.figures[prefix], field), nil
	}
	return nil, nil
}

// nodeTimes returns the function that sets one of the tick counters of the node. They are
// always read together.
func (t *targets) nodeTimes(field string) func(float64) error {
	set := setterOf(timesOf(&t.times), field)
	if set == nil {
		return nil
	}
	return func(v float64) error {
		err := set(v)
		t.s.Node.CPU.Set(t.times)
		return err
	}
}

func setterOf(figures []field, name string) func(float64) error {
	for _, f := range figures {
		if f.name == name {
			return f.setFigure
		}
	}
	return nil
}
