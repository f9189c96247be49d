package ftdc

import (
	"fmt"

	"github.com/resource-tracker/rt"
)

// targets has the functions that store the metrics of a schema.
type targets struct {
	set   map[string]func(float64) error // by the name of the metric; it ignores unknown ones
	held  rt.Snapshot                    // the processes of the schema, whether they were read now or not
	reads map[*part][]*uint64            // what was read of each process, in the order of held
	times rt.CPUTimes                    // of the node
}

// newTargets creates the devices in s that the metrics are of, with their texts.
func newTargets(s *rt.Snapshot, names []string, texts map[string]map[string]string) (*targets, error) {
	t := &targets{set: map[string]func(float64) error{}, reads: map[*part][]*uint64{}}
	for _, f := range fixed(s) {
		t.addFigures(f.kind, f.figures)
	}
	for _, f := range timesOf(&t.times) {
		t.set["node.cpu."+f.name] = func(v float64) error {
			err := f.setFigure(v)
			s.Node.CPU.Set(t.times) // the ticks are always read together
			return err
		}
	}
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
			if err := element.setName(key); err != nil {
				return nil, fmt.Errorf("the name of a %s: %w", p.kind, err)
			}
			t.addFigures(prefix, element.figures)
			if p.transient {
				read := new(uint64)
				t.set[prefix+"."+readMetric] = func(v float64) (err error) { *read, err = toCount(v); return err }
				t.reads[p] = append(t.reads[p], read)
			}
			for name, text := range texts[prefix] {
				setText(element.texts, name, text)
			}
		}
	}
	return t, nil
}

func (t *targets) addFigures(prefix string, figures []field) {
	for _, f := range figures {
		t.set[prefix+"."+f.name] = f.setFigure
	}
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
