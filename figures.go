package rt

import (
	"strings"
)

// Unit is the unit in which a figure is stored. Its text ends the name of the column.
type Unit string

// The units of figures.
const (
	Count       Unit = "" // also of texts
	Bytes       Unit = "bytes"
	KiB         Unit = "kib" // the field is in bytes, the column in units of 1024 bytes
	Micros      Unit = "us"
	Nanos       Unit = "ns"
	Ticks       Unit = "ticks" // USER_HZ
	KHz         Unit = "khz"
	MHz         Unit = "mhz"
	Mbps        Unit = "mbps" // 10^6 bits per second
	Hundredths  Unit = "hundredths"
	Percent     Unit = "pct"
	Celsius     Unit = "celsius"
	Watts       Unit = "watts"
	Microjoules Unit = "uj"
)

// Kind says how a figure changes from one snapshot to the next. Kinds can be combined to a set.
type Kind uint8

// The kinds of figures.
const (
	Gauge   Kind = 1 << iota // a level: a reading is valid for its own instant only
	Counter                  // a count: it does not fall while the thing that it counts exists
	Peak                     // the highest level since the thing exists
	Limit                    // a setting

	AnyKind = Gauge | Counter | Peak | Limit
)

// Values of Figure.Derived.
const (
	derived = true
	kept    = false
)

// Figure describes one figure of the noun T with a value of type V. The tables below are the only
// lists of figures: the spool's columns, the carry-over of counters and the exports are made
// from them.
type Figure[T, V any] struct {
	Name    string // with the name of the noun it is unique: "mem_current"
	Unit    Unit
	Kind    Kind
	Derived bool // whether DeriveScalars or DeriveProcess uses it
	Field   func(*T) *Opt[V]
}

// Column is the name of the figure's column in a spool file: noun, name and unit.
func (f *Figure[T, V]) Column(noun string) string { return column(noun+"_"+f.Name, f.Unit) }

// column ends a name with its unit, unless the name ends with it already.
func column(name string, unit Unit) string {
	if suffix := "_" + string(unit); unit != Count && !strings.HasSuffix(name, suffix) {
		return name + suffix
	}
	return name
}

// NodeFigures are the figures of the node. Its ticks, which are read together, are not among them.
var NodeFigures = [...]Figure[NodeReading, uint64]{
	{"cpus", Count, Gauge, derived, func(n *NodeReading) *Opt[uint64] { return &n.CPUs }},
	{"processes", Count, Gauge, derived, func(n *NodeReading) *Opt[uint64] { return &n.Processes }},
	{"mem_total", KiB, Gauge, derived, func(n *NodeReading) *Opt[uint64] { return &n.MemTotal }},
	{"mem_free", KiB, Gauge, derived, func(n *NodeReading) *Opt[uint64] { return &n.MemFree }},
	{"mem_available", KiB, Gauge, kept, func(n *NodeReading) *Opt[uint64] { return &n.MemAvailable }},
	{"buffers", KiB, Gauge, derived, func(n *NodeReading) *Opt[uint64] { return &n.Buffers }},
	{"cached", KiB, Gauge, derived, func(n *NodeReading) *Opt[uint64] { return &n.Cached }},
	{"sreclaimable", KiB, Gauge, derived, func(n *NodeReading) *Opt[uint64] { return &n.SReclaimable }},
	{"shmem", KiB, Gauge, kept, func(n *NodeReading) *Opt[uint64] { return &n.Shmem }},
	{"active", KiB, Gauge, derived, func(n *NodeReading) *Opt[uint64] { return &n.Active }},
	{"inactive", KiB, Gauge, derived, func(n *NodeReading) *Opt[uint64] { return &n.Inactive }},
	{"swap_total", KiB, Gauge, kept, func(n *NodeReading) *Opt[uint64] { return &n.SwapTotal }},
	{"swap_free", KiB, Gauge, kept, func(n *NodeReading) *Opt[uint64] { return &n.SwapFree }},
	{"net_rx_bytes", Bytes, Counter, derived, func(n *NodeReading) *Opt[uint64] { return &n.NetRxBytes }},
	{"net_tx_bytes", Bytes, Counter, derived, func(n *NodeReading) *Opt[uint64] { return &n.NetTxBytes }},
	{"disk_read_bytes", Bytes, Counter, derived, func(n *NodeReading) *Opt[uint64] { return &n.DiskReadBytes }},
	{"disk_write_bytes", Bytes, Counter, derived, func(n *NodeReading) *Opt[uint64] { return &n.DiskWriteBytes }},
	{"space_total", KiB, Gauge, derived, func(n *NodeReading) *Opt[uint64] { return &n.SpaceTotal }},
	{"space_available", KiB, Gauge, derived, func(n *NodeReading) *Opt[uint64] { return &n.SpaceAvailable }},
	{"gpus", Count, Gauge, derived, func(n *NodeReading) *Opt[uint64] { return &n.GPUs }},
	{"gpu_vram_used", KiB, Gauge, derived, func(n *NodeReading) *Opt[uint64] { return &n.GPUVRAMUsed }},
	{"gpu_utilized", Count, Gauge, derived, func(n *NodeReading) *Opt[uint64] { return &n.GPUUtilized }},
	{"huge_free", KiB, Gauge, kept, func(n *NodeReading) *Opt[uint64] { return &n.HugeFree }},
	{"load1", Hundredths, Gauge, kept, func(n *NodeReading) *Opt[uint64] { return &n.Load1 }},
	{"cpu_freq", KHz, Gauge, kept, func(n *NodeReading) *Opt[uint64] { return &n.CPUFreq }},
}

// JobFigures are the figures of the job's cgroup.
var JobFigures = [...]Figure[JobReading, uint64]{
	{"cpu_usage", Micros, Counter, derived, func(j *JobReading) *Opt[uint64] { return &j.CPUUsage }},
	{"cpu_user", Micros, Counter, derived, func(j *JobReading) *Opt[uint64] { return &j.CPUUser }},
	{"cpu_system", Micros, Counter, derived, func(j *JobReading) *Opt[uint64] { return &j.CPUSystem }},
	{"cpu_throttled", Micros, Counter, kept, func(j *JobReading) *Opt[uint64] { return &j.CPUThrottled }},
	{"stepd_cpu_usage", Micros, Counter, kept, func(j *JobReading) *Opt[uint64] { return &j.StepdCPUUsage }},
	{"mem_current", KiB, Gauge, derived, func(j *JobReading) *Opt[uint64] { return &j.MemCurrent }},
	{"mem_peak", KiB, Peak, kept, func(j *JobReading) *Opt[uint64] { return &j.MemPeak }},
	{"mem_limit", KiB, Limit, derived, func(j *JobReading) *Opt[uint64] { return &j.MemLimit }},
	{"swap", KiB, Gauge, kept, func(j *JobReading) *Opt[uint64] { return &j.Swap }},
	{"swap_peak", KiB, Peak, kept, func(j *JobReading) *Opt[uint64] { return &j.SwapPeak }},
	{"mem_interval_peak", KiB, Gauge, kept, func(j *JobReading) *Opt[uint64] { return &j.MemIntervalPeak }},
	{"anon", KiB, Gauge, kept, func(j *JobReading) *Opt[uint64] { return &j.Anon }},
	{"file", KiB, Gauge, derived, func(j *JobReading) *Opt[uint64] { return &j.File }},
	{"shmem", KiB, Gauge, kept, func(j *JobReading) *Opt[uint64] { return &j.Shmem }},
	{"kernel", Bytes, Gauge, kept, func(j *JobReading) *Opt[uint64] { return &j.Kernel }},
	{"slab_reclaimable", Bytes, Gauge, derived, func(j *JobReading) *Opt[uint64] { return &j.SlabReclaimable }},
	{"active", KiB, Gauge, derived, func(j *JobReading) *Opt[uint64] { return &j.Active }},
	{"inactive", KiB, Gauge, derived, func(j *JobReading) *Opt[uint64] { return &j.Inactive }},
	{"page_faults", Count, Counter, kept, func(j *JobReading) *Opt[uint64] { return &j.PageFaults }},
	{"major_faults", Count, Counter, kept, func(j *JobReading) *Opt[uint64] { return &j.MajorFaults }},
	{"events_high", Count, Counter, kept, func(j *JobReading) *Opt[uint64] { return &j.EventsHigh }},
	{"events_max", Count, Counter, kept, func(j *JobReading) *Opt[uint64] { return &j.EventsMax }},
	{"events_oom", Count, Counter, kept, func(j *JobReading) *Opt[uint64] { return &j.EventsOOM }},
	{"events_oom_kill", Count, Counter, kept, func(j *JobReading) *Opt[uint64] { return &j.EventsOOMKill }},
	{"pids", Count, Gauge, derived, func(j *JobReading) *Opt[uint64] { return &j.Pids }},
	{"threads", Count, Gauge, kept, func(j *JobReading) *Opt[uint64] { return &j.Threads }},
	{"io_read_bytes", Bytes, Counter, derived, func(j *JobReading) *Opt[uint64] { return &j.IOReadBytes }},
	{"io_write_bytes", Bytes, Counter, derived, func(j *JobReading) *Opt[uint64] { return &j.IOWriteBytes }},
	{"cpu_stall_some", Micros, Counter, kept, func(j *JobReading) *Opt[uint64] { return &j.CPUStallSome }},
	{"cpu_stall_full", Micros, Counter, kept, func(j *JobReading) *Opt[uint64] { return &j.CPUStallFull }},
	{"mem_stall_some", Micros, Counter, kept, func(j *JobReading) *Opt[uint64] { return &j.MemStallSome }},
	{"mem_stall_full", Micros, Counter, kept, func(j *JobReading) *Opt[uint64] { return &j.MemStallFull }},
	{"io_stall_some", Micros, Counter, kept, func(j *JobReading) *Opt[uint64] { return &j.IOStallSome }},
	{"io_stall_full", Micros, Counter, kept, func(j *JobReading) *Opt[uint64] { return &j.IOStallFull }},
	{"suspended", Micros, Counter, kept, func(j *JobReading) *Opt[uint64] { return &j.Suspended }},
	{"huge_tlb", KiB, Gauge, kept, func(j *JobReading) *Opt[uint64] { return &j.HugeTLB }},
	{"rdma_handles", Count, Gauge, kept, func(j *JobReading) *Opt[uint64] { return &j.RDMAHandles }},
	{"rdma_objects", Count, Gauge, kept, func(j *JobReading) *Opt[uint64] { return &j.RDMAObjects }},
	{"proc_read_bytes", Bytes, Counter, derived, func(j *JobReading) *Opt[uint64] { return &j.ProcReadBytes }},
	{"proc_write_bytes", Bytes, Counter, derived, func(j *JobReading) *Opt[uint64] { return &j.ProcWriteBytes }},
	{"voluntary_switches", Count, Counter, kept, func(j *JobReading) *Opt[uint64] { return &j.VoluntarySwitches }},
	{"involuntary_switches", Count, Counter, kept, func(j *JobReading) *Opt[uint64] { return &j.InvoluntarySwitches }},
}

// TreeFigures are the figures of a process tree.
var TreeFigures = [...]Figure[TreeReading, uint64]{
	{"cpu_user_ticks", Ticks, Counter, derived, func(t *TreeReading) *Opt[uint64] { return &t.CPUUserTicks }},
	{"cpu_system_ticks", Ticks, Counter, derived, func(t *TreeReading) *Opt[uint64] { return &t.CPUSystemTicks }},
	{"children", Count, Gauge, derived, func(t *TreeReading) *Opt[uint64] { return &t.Children }},
	{"rss", KiB, Gauge, derived, func(t *TreeReading) *Opt[uint64] { return &t.RSS }},
	{"pss", KiB, Gauge, derived, func(t *TreeReading) *Opt[uint64] { return &t.PSS }},
	{"read_bytes", Bytes, Counter, derived, func(t *TreeReading) *Opt[uint64] { return &t.ReadBytes }},
	{"write_bytes", Bytes, Counter, derived, func(t *TreeReading) *Opt[uint64] { return &t.WriteBytes }},
}

// GPUUseFigures are the figures of the GPUs of the job or tree.
var GPUUseFigures = [...]Figure[GPUUse, uint64]{
	{"vram_used", KiB, Gauge, derived, func(u *GPUUse) *Opt[uint64] { return &u.VRAMUsed }},
	{"utilized", Count, Gauge, derived, func(u *GPUUse) *Opt[uint64] { return &u.Utilized }},
}

// NodeGPUUsage and GPUUseUsage are the figures that have fractions: GPUs in use.
var (
	NodeGPUUsage = Figure[NodeReading, float64]{"gpu_usage", Count, Gauge, derived, func(n *NodeReading) *Opt[float64] { return &n.GPUUsage }}
	GPUUseUsage  = Figure[GPUUse, float64]{"usage", Count, Gauge, derived, func(u *GPUUse) *Opt[float64] { return &u.Usage }}
)

// carryOver fills the figures of some kinds that are absent in to with the figures of older.
func carryOver[T any](figures []Figure[T, uint64], to, older *T, kinds Kind) {
	for i := range figures {
		if f := &figures[i]; f.Kind&kinds != 0 {
			if v := f.Field(to); !v.Valid() {
				*v = *f.Field(older)
			}
		}
	}
}

// Role says what a field of a reading is for.
type Role uint8

// The roles. The things of a list, such as interfaces or steps, are matched by their keys.
const (
	Key   Role = iota // part of the name of the thing
	Info              // describes the thing; changes seldom or never
	Value             // what was read
)

// Field is a field of a reading that stands in a list, for the spool and the exports.
type Field struct {
	Name string // in a spool file: Column
	Unit Unit
	Role Role
	At   any // points to the field: *string, *bool, *uint64, *int, *map[string]string or an *Opt
}

// Column is the name of the field's column in a spool file: its name and unit.
func (f *Field) Column() string { return column(f.Name, f.Unit) }

// Fields lists the fields of the processor. Its ticks are not among them.
func (c *CPUReading) Fields() []Field { return []Field{{"cpu", Count, Key, &c.CPU}} }

// Fields lists the fields of the interface.
func (n *NetReading) Fields() []Field {
	return []Field{
		{"name", Count, Key, &n.Name},
		{"mac", Count, Info, &n.MAC}, {"driver", Count, Info, &n.Driver}, {"oper_state", Count, Info, &n.OperState},
		{"speed_mbps", Mbps, Info, &n.SpeedMbps}, {"mtu", Bytes, Info, &n.MTU},
		{"rx_bytes", Bytes, Value, &n.RxBytes}, {"tx_bytes", Bytes, Value, &n.TxBytes},
	}
}

// Fields lists the fields of the block device.
func (d *DiskReading) Fields() []Field {
	return []Field{
		{"name", Count, Key, &d.Name},
		{"leaf", Count, Info, &d.Leaf}, {"model", Count, Info, &d.Model}, {"vendor", Count, Info, &d.Vendor},
		{"serial", Count, Info, &d.Serial}, {"type", Count, Info, &d.Type}, {"capacity", Bytes, Info, &d.Capacity},
		{"read_bytes", Bytes, Value, &d.ReadBytes}, {"write_bytes", Bytes, Value, &d.WriteBytes},
	}
}

// Fields lists the fields of the file system.
func (m *MountReading) Fields() []Field {
	return []Field{
		{"disk", Count, Key, &m.Disk}, {"fs_type", Count, Key, &m.FSType}, {"mount_point", Count, Key, &m.MountPoint},
		{"total", Bytes, Info, &m.Total},
		{"available", Bytes, Value, &m.Available}, {"used", Bytes, Value, &m.Used},
	}
}

// Fields lists the fields of the GPU.
func (g *GPUReading) Fields() []Field {
	return []Field{
		{"uuid", Count, Key, &g.UUID},
		{"name", Count, Info, &g.Name}, {"type", Count, Info, &g.Type}, {"host", Count, Info, &g.Host},
		{"vram_total", Bytes, Info, &g.VRAMTotal}, {"cores", Count, Info, &g.Cores}, {"in_job", Count, Info, &g.InJob},
		{"detail", Count, Info, &g.Detail},
		{"utilization", Percent, Value, &g.Utilization}, {"vram_used", Bytes, Value, &g.VRAMUsed},
		{"temperature", Celsius, Value, &g.Temperature}, {"power", Watts, Value, &g.Power}, {"frequency", MHz, Value, &g.Frequency},
	}
}

// Fields lists the fields of the port.
func (f *FabricReading) Fields() []Field {
	return []Field{
		{"port", Count, Key, &f.Port}, {"device", Count, Key, &f.Device},
		{"link", Count, Info, &f.Link}, {"state", Count, Info, &f.State}, {"rate_mbps", Mbps, Info, &f.RateMbps},
		{"rx_bytes", Bytes, Value, &f.RxBytes}, {"tx_bytes", Bytes, Value, &f.TxBytes},
		{"rx_packets", Count, Value, &f.RxPackets}, {"tx_packets", Count, Value, &f.TxPackets},
	}
}

// Fields lists the fields of the file system.
func (r *RemoteFSReading) Fields() []Field {
	return []Field{
		{"kind", Count, Key, &r.Kind}, {"source", Count, Key, &r.Source}, {"mount_point", Count, Key, &r.MountPoint},
		{"read_bytes", Bytes, Value, &r.ReadBytes}, {"write_bytes", Bytes, Value, &r.WriteBytes}, {"ops", Count, Value, &r.Ops},
	}
}

// Fields lists the fields of the step or task.
func (s *StepReading) Fields() []Field {
	return []Field{
		{"task", Count, Key, &s.Task}, {"step", Count, Key, &s.Step},
		{"ended", Count, Value, &s.Ended},
		{"cpu_usage", Micros, Value, &s.CPUUsage}, {"cpu_user", Micros, Value, &s.CPUUser}, {"cpu_system", Micros, Value, &s.CPUSystem},
		{"mem_current", KiB, Value, &s.MemCurrent}, {"mem_peak", KiB, Value, &s.MemPeak},
		{"anon", KiB, Value, &s.Anon}, {"file", KiB, Value, &s.File}, {"shmem", KiB, Value, &s.Shmem},
		{"page_faults", Count, Value, &s.PageFaults}, {"major_faults", Count, Value, &s.MajorFaults},
		{"events_oom_kill", Count, Value, &s.EventsOOMKill}, {"pids", Count, Value, &s.Pids},
		{"io_read_bytes", Bytes, Value, &s.IOReadBytes}, {"io_write_bytes", Bytes, Value, &s.IOWriteBytes},
	}
}

// Fields lists the fields of the process.
func (p *ProcessReading) Fields() []Field {
	return []Field{
		{"pid", Count, Key, &p.PID}, {"start", Ticks, Key, &p.Start}, {"task", Count, Key, &p.Task}, {"step", Count, Key, &p.Step},
		{"comm", Count, Key, &p.Comm},
		{"user_ticks", Ticks, Value, &p.UserTicks}, {"system_ticks", Ticks, Value, &p.SystemTicks},
		{"rss", KiB, Value, &p.RSS}, {"pss", KiB, Value, &p.PSS}, {"threads", Count, Value, &p.Threads},
		{"read_bytes", Bytes, Value, &p.ReadBytes}, {"write_bytes", Bytes, Value, &p.WriteBytes},
	}
}

// Fields lists the fields of the process on a GPU.
func (g *GPUProcessReading) Fields() []Field {
	return []Field{
		{"uuid", Count, Key, &g.UUID}, {"pid", Count, Key, &g.PID},
		{"vram_used", Bytes, Value, &g.VRAMUsed}, {"utilization", Percent, Value, &g.Utilization},
		{"vram_peak", Bytes, Value, &g.VRAMPeak},
	}
}

// Fields lists the fields of the domain.
func (e *EnergyReading) Fields() []Field {
	return []Field{
		{"source", Count, Key, &e.Source}, {"kind", Count, Key, (*string)(&e.Kind)}, {"domain", Count, Key, &e.Domain},
		{"socket", Count, Info, &e.Socket},
		{"energy", Microjoules, Value, &e.Energy}, {"power", Watts, Value, &e.Power},
	}
}

// Fields lists the fields of the counter.
func (p *PerfReading) Fields() []Field {
	return []Field{
		{"group", Count, Key, &p.Group}, {"socket", Count, Key, &p.Socket}, {"cpu", Count, Key, &p.CPU}, {"event", Count, Key, &p.Event},
		{"value", Count, Value, &p.Value}, {"time_enabled", Nanos, Value, &p.TimeEnabled}, {"time_running", Nanos, Value, &p.TimeRunning},
	}
}
