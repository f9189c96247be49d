package ftdc

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// noun is a struct of rt. The names of its figures and texts are the names of the metrics. They are part of the
// format and do not change.
type noun struct {
	key            []any // pointers; they identify it in a list
	figures, texts []field
}

// sorted sorts the fields of a reading into a noun.
func sorted(fields []rt.Field) noun {
	var n noun
	for _, f := range fields {
		if f.Role == rt.Key {
			n.key = append(n.key, f.At)
			continue
		}
		switch f.At.(type) {
		case *string, *map[string]string:
			n.texts = append(n.texts, field{f.Name, f.At})
		default:
			n.figures = append(n.figures, field{f.Name, f.At})
		}
	}
	return n
}

// cpuOf returns the noun of a processor: its method Fields does not list the ticks.
func cpuOf(c *rt.CPUReading) noun {
	n := sorted(c.Fields())
	n.figures = timesOf(&c.Times)
	return n
}

type fixedPart struct {
	kind    string
	figures []field
}

// fixed returns the figures of a snapshot that are not in lists, with the first word of their metrics.
func fixed(s *rt.Snapshot) [4]fixedPart {
	return [...]fixedPart{
		{"node", tabled(rt.NodeFigures[:], &s.Node, field{rt.NodeGPUUsage.Name, &s.Node.GPUUsage})},
		{"job", tabled(rt.JobFigures[:], &s.Job, field{"phase", &s.Job.Phase})},
		{"gpus", tabled(rt.GPUUseFigures[:], &s.GPU, field{rt.GPUUseUsage.Name, &s.GPU.Usage})},
		{"tree", tabled(rt.TreeFigures[:], &s.Tree)},
	}
}

// tabled returns others and the figures of v that a table of rt lists.
func tabled[T any](table []rt.Figure[T, uint64], v *T, others ...field) []field {
	fields := make([]field, 0, len(others)+len(table))
	fields = append(fields, others...)
	for i := range table {
		fields = append(fields, field{table[i].Name, table[i].Field(v)})
	}
	return fields
}

func timesOf(t *rt.CPUTimes) []field {
	return []field{
		{"user", &t.User}, {"nice", &t.Nice}, {"system", &t.System}, {"idle", &t.Idle},
		{"io_wait", &t.IOWait}, {"irq", &t.IRQ}, {"soft_irq", &t.SoftIRQ}, {"steal", &t.Steal},
	}
}

func runOf(r *rt.Run) noun {
	return factsOf(reflect.ValueOf(r).Elem(), map[string]string{"interval_secs": "interval"})
}

func hostOf(h *rt.Host) noun {
	return factsOf(reflect.ValueOf(h).Elem(), map[string]string{
		"host_vcpus": "vcpus", "host_memory_mib": "memory_mib", "host_gpu_count": "gpu_count", "host_gpu_vram_mib": "gpu_vram_mib",
		"host_storage_gb": "storage_gb", "host_cpu_model": "cpu_model", "host_gpu_model": "gpu_model",
	})
}

// factsOf returns the fields of a run or a host by their names in JSON, except those with another name here.
// Lists, times and the state are not among them.
func factsOf(of reflect.Value, others map[string]string) (n noun) {
	for f, value := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		name = cmp.Or(others[name], name)
		switch at := value.Addr().Interface().(type) {
		case *rt.Identity, *rt.Allocation, *rt.Metadata, *rt.Ending:
			part := factsOf(value, others)
			n.figures, n.texts = append(n.figures, part.figures...), append(n.texts, part.texts...)
		case *string, *map[string]string:
			n.texts = append(n.texts, field{name, at})
		case *rt.Outcome:
			n.texts = append(n.texts, field{name, (*string)(at)})
		case *rt.State, *time.Time, *[]string:
		default:
			n.figures = append(n.figures, field{name, at})
		}
	}
	return n
}

// slashes escapes the words of a key, such as the source of a file system, "server:/home".
var slashes, noSlashes = strings.NewReplacer("%", "%25", "/", "%2F"), strings.NewReplacer("%25", "%", "%2F", "/")

// name returns the words of the key with slashes between; an absent one is empty. Slashes in a word
// are escaped, except in the last one.
func (n *noun) name() string {
	words := make([]string, len(n.key))
	for i, at := range n.key {
		switch p := at.(type) {
		case *string:
			words[i] = *p
		case *int:
			words[i] = fmt.Sprint(*p)
		case *uint64:
			words[i] = fmt.Sprint(*p)
		case *rt.Opt[uint64]:
			if v, ok := p.Get(); ok {
				words[i] = fmt.Sprint(v)
			}
		}
		if i < len(words)-1 {
			words[i] = slashes.Replace(words[i])
		}
	}
	return strings.ToValidUTF8(strings.Join(words, "/"), "?")
}

// setName is the reverse of name.
func (n *noun) setName(name string) error {
	words := strings.SplitN(name, "/", len(n.key))
	if len(words) != len(n.key) {
		return fmt.Errorf("%q has %d parts and not %d", name, len(words), len(n.key))
	}
	for i, at := range n.key {
		var err error
		switch p := at.(type) {
		case *string:
			*p = words[i]
			if i < len(words)-1 {
				*p = noSlashes.Replace(words[i])
			}
		case *rt.Opt[uint64]:
			var v uint64
			if words[i] != "" {
				_, err = fmt.Sscan(words[i], &v)
				p.Set(v)
			}
		default:
			_, err = fmt.Sscan(words[i], at)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	return nil
}

// part is a list of a snapshot, such as its disks.
type part struct {
	kind      string // the first word of its metrics
	transient bool   // its elements come and go: see transient
	texts     []field

	len    func(s *rt.Snapshot) int
	resize func(s *rt.Snapshot, n int) // to n zero elements
	at     func(s *rt.Snapshot, i int) noun
	move   func(to, from *rt.Snapshot, i int) // appends a copy of element i
}

// list returns the part for a list of a snapshot.
func list[T any](kind string, in func(*rt.Snapshot) *[]T, view func(*T) noun) part {
	return part{
		kind:      kind,
		transient: kind == processKind || kind == gpuProcessKind,
		texts:     view(new(T)).texts,
		len:       func(s *rt.Snapshot) int { return len(*in(s)) },
		resize:    func(s *rt.Snapshot, n int) { *in(s) = make([]T, n) },
		at:        func(s *rt.Snapshot, i int) noun { return view(&(*in(s))[i]) },
		move:      func(to, from *rt.Snapshot, i int) { *in(to) = append(*in(to), (*in(from))[i]) },
	}
}

// reading is an element of a list that lists its fields.
type reading[T any] interface {
	*T
	Fields() []rt.Field
}

func nounOf[T any, P reading[T]](v *T) noun { return sorted(P(v).Fields()) }

// The first words of the metrics of processes.
const (
	processKind    = "proc"
	gpuProcessKind = "gpuproc"
)

// parts are the lists of a snapshot.
var parts = []part{
	list("cpu", func(s *rt.Snapshot) *[]rt.CPUReading { return &s.CPUs }, cpuOf),
	list("net", func(s *rt.Snapshot) *[]rt.NetReading { return &s.Nets }, nounOf),
	list("disk", func(s *rt.Snapshot) *[]rt.DiskReading { return &s.Disks }, nounOf),
	list("mount", func(s *rt.Snapshot) *[]rt.MountReading { return &s.Mounts }, nounOf),
	list("gpu", func(s *rt.Snapshot) *[]rt.GPUReading { return &s.GPUs }, nounOf),
	list("fabric", func(s *rt.Snapshot) *[]rt.FabricReading { return &s.Fabrics }, nounOf),
	list("remotefs", func(s *rt.Snapshot) *[]rt.RemoteFSReading { return &s.RemoteFS }, nounOf),
	list("step", func(s *rt.Snapshot) *[]rt.StepReading { return &s.Steps }, nounOf),
	list("energy", func(s *rt.Snapshot) *[]rt.EnergyReading { return &s.Energy }, nounOf),
	list("perf", func(s *rt.Snapshot) *[]rt.PerfReading { return &s.Perf }, nounOf),
	list(processKind, func(s *rt.Snapshot) *[]rt.ProcessReading { return &s.Procs }, nounOf),
	list(gpuProcessKind, func(s *rt.Snapshot) *[]rt.GPUProcessReading { return &s.GPUProcesses }, nounOf),
}

// cut splits <kind>.<key>.<field>. The key may contain dots, the field does not.
func (p *part) cut(metric string) (key, field string, ok bool) {
	rest, ok := strings.CutPrefix(metric, p.kind+".")
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot < 0 {
		return "", "", false
	}
	return rest[:dot], rest[dot+1:], true
}

// cutText splits <kind>_info.<key>.<field>=<text>. A key may contain dots and equals signs.
func (p *part) cutText(metric string) (key, field, text string, ok bool) {
	rest, ok := strings.CutPrefix(metric, p.kind+infoSuffix)
	if !ok {
		return "", "", "", false
	}
	at := -1
	for _, f := range p.texts {
		end := "="
		if _, isMap := f.at.(*map[string]string); isMap {
			end = "."
		}
		i := strings.Index(rest, "."+f.name+end)
		isFirst := at < 0 || i < at
		if i >= 0 && isFirst {
			at = i
		}
	}
	if at < 0 {
		return "", "", "", false
	}
	field, text, ok = strings.Cut(rest[at+1:], "=")
	return rest[:at], field, text, ok
}
