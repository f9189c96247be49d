package rt

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
