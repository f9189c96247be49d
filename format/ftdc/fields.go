package ftdc

import (
	"fmt"
	"strings"

	"github.com/resource-tracker/rt"
)

// noun is a struct of rt. The names of its figures and texts are those of the metrics, and
// part of the format: they do not change.
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
	return noun{
		figures: []field{
			{"job_id", &r.JobID}, {"array_job_id", &r.ArrayJobID}, {"array_task_id", &r.ArrayTaskID},
			{"het_job_id", &r.HetJobID}, {"het_job_offset", &r.HetJobOffset}, {"attempt", &r.Attempt},
			{"uid", &r.UID}, {"gid", &r.GID}, {"num_nodes", &r.NumNodes}, {"alloc_cpus", &r.AllocCPUs}, {"alloc_mem", &r.AllocMem},
			{"step_tasks", &r.StepTasks}, {"pid", &r.PID}, {"interval", &r.Interval},
			{"exit_code", &r.ExitCode}, {"exit_signal", &r.ExitSignal}, {"derived_exit", &r.DerivedExit},
		},
		texts: append([]field{
			{"cluster", &r.Cluster}, {"step", &r.Step}, {"node", &r.Node}, {"sluid", &r.SLUID}, {"boot_id", &r.BootID},
			{"scheduler", &r.Scheduler}, {"user", &r.User}, {"group", &r.Group}, {"account", &r.Account}, {"partition", &r.Partition},
			{"qos", &r.QOS}, {"reservation", &r.Reservation}, {"node_list", &r.NodeList}, {"gpus", &r.GPUs}, {"work_dir", &r.WorkDir},
			{"comment", &r.Comment}, {"constraints", &r.Constraints}, {"licenses", &r.Licenses},
			{"cgroup_layout", &r.CgroupLayout}, {"cgroup_path", &r.CgroupPath}, {"tracker_version", &r.TrackerVersion},
			{"outcome", (*string)(&r.Outcome)}, {"outcome_source", &r.OutcomeSource},
		}, metadataOf(&r.Meta)...),
	}
}

func metadataOf(m *rt.Metadata) []field {
	var texts []field
	for _, name := range rt.MetadataFields {
		texts = append(texts, field{name, m.Field(name)})
	}
	return append(texts, field{"tags", &m.Tags})
}

func hostOf(h *rt.Host) noun {
	return noun{
		figures: []field{
			{"vcpus", &h.VCPUs}, {"memory_mib", &h.MemoryMiB}, {"gpu_count", &h.GPUCount}, {"gpu_vram_mib", &h.GPUVRAMMiB},
			{"storage_gb", &h.StorageGB},
		},
		texts: []field{
			{"host_id", &h.HostID}, {"host_name", &h.HostName}, {"host_ip", &h.HostIP}, {"host_allocation", &h.HostAllocation},
			{"cpu_model", &h.CPUModel}, {"gpu_model", &h.GPUModel},
			{"cloud_vendor_id", &h.CloudVendorID}, {"cloud_account_id", &h.CloudAccountID}, {"cloud_region_id", &h.CloudRegionID},
			{"cloud_zone_id", &h.CloudZoneID}, {"cloud_instance_type", &h.CloudInstanceType},
		},
	}
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
