package ftdc

import (
	"strings"

	"github.com/resource-tracker/rt"
)

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
