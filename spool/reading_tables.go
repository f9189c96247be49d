package spool

import (
	"database/sql/driver"

	"github.com/resource-tracker/rt"
)

// kind says how readings of T are stored: those that are all of one type, what
// the thing is and what it showed in one.
type kind[T comparable] struct {
	table    string     // of the identities
	readings readings   // where they are; without the names of the values
	identity func(*T) T // a copy with nothing but what it is
	id       func(*T) []column
	values   func(*T) []column
}

var (
	stepKind = kind[rt.StepReading]{
		table: "step", readings: readings{table: readingsOfSteps, device: "step"},
		identity: func(s *rt.StepReading) rt.StepReading { return rt.StepReading{Step: s.Step, Task: s.Task} },
		id:       func(s *rt.StepReading) []column { return []column{{"step", &s.Step}, {"task", &s.Task}} },
		values: func(s *rt.StepReading) []column {
			return []column{
				{"ended", &s.Ended}, {"cpu_usage_us", &s.CPUUsage}, {"cpu_user_us", &s.CPUUser}, {"cpu_system_us", &s.CPUSystem},
				{"mem_current_kib", inKiB{&s.MemCurrent}}, {"mem_peak_kib", inKiB{&s.MemPeak}}, {"anon_kib", inKiB{&s.Anon}},
				{"file_kib", inKiB{&s.File}}, {"shmem_kib", inKiB{&s.Shmem}}, {"page_faults", &s.PageFaults},
				{"major_faults", &s.MajorFaults}, {"oom_kills", &s.EventsOOMKill}, {"pids", &s.Pids},
				{"io_read_bytes", &s.IOReadBytes}, {"io_write_bytes", &s.IOWriteBytes},
			}
		},
	}
	processKind = kind[rt.ProcessReading]{
		table: "process", readings: readings{table: readingsOfProcesses, device: "process"},
		identity: func(p *rt.ProcessReading) rt.ProcessReading {
			return rt.ProcessReading{PID: p.PID, Start: p.Start, Comm: p.Comm, Step: p.Step, Task: p.Task}
		},
		id: func(p *rt.ProcessReading) []column {
			return []column{{"pid", &p.PID}, {"start_ticks", &p.Start}, {"comm", &p.Comm}, {"step", &p.Step}, {"task", &p.Task}}
		},
		values: func(p *rt.ProcessReading) []column {
			return []column{
				{"cpu_user_ticks", &p.UserTicks}, {"cpu_system_ticks", &p.SystemTicks}, {"rss_kib", inKiB{&p.RSS}},
				{"pss_kib", inKiB{&p.PSS}}, {"threads", &p.Threads}, {"read_bytes", &p.ReadBytes}, {"write_bytes", &p.WriteBytes},
			}
		},
	}
	gpuProcessKind = kind[rt.GPUProcessReading]{
		table: "gpu_process", readings: counters,
		identity: func(g *rt.GPUProcessReading) rt.GPUProcessReading {
			return rt.GPUProcessReading{UUID: g.UUID, PID: g.PID}
		},
		id:     func(g *rt.GPUProcessReading) []column { return []column{{"gpu_uuid", &g.UUID}, {"pid", &g.PID}} },
		values: func(g *rt.GPUProcessReading) []column { return numbered(&g.VRAMUsed, &g.Utilization) },
	}
	fabricKind = kind[rt.FabricReading]{
		table: "fabric", readings: counters,
		identity: func(f *rt.FabricReading) rt.FabricReading {
			return rt.FabricReading{Device: f.Device, Port: f.Port, Link: f.Link, State: f.State, RateMbps: f.RateMbps}
		},
		id: func(f *rt.FabricReading) []column {
			return []column{{"device", &f.Device}, {"port", &f.Port}, {"link", &f.Link}, {"state", &f.State}, {"rate_mbps", &f.RateMbps}}
		},
		values: func(f *rt.FabricReading) []column {
			return numbered(&f.RxBytes, &f.TxBytes, &f.RxPackets, &f.TxPackets)
		},
	}
	remoteFSKind = kind[rt.RemoteFSReading]{
		table: "remote_fs", readings: counters,
		identity: func(r *rt.RemoteFSReading) rt.RemoteFSReading {
			return rt.RemoteFSReading{Kind: r.Kind, Source: r.Source, MountPoint: r.MountPoint}
		},
		id: func(r *rt.RemoteFSReading) []column {
			return []column{{"kind", &r.Kind}, {"source", &r.Source}, {"mount_point", &r.MountPoint}}
		},
		values: func(r *rt.RemoteFSReading) []column { return numbered(&r.ReadBytes, &r.WriteBytes, &r.Ops) },
	}
	energyKind = kind[rt.EnergyReading]{
		table: "energy", readings: counters,
		identity: func(e *rt.EnergyReading) rt.EnergyReading {
			return rt.EnergyReading{Source: e.Source, Domain: e.Domain, Kind: e.Kind, Socket: e.Socket}
		},
		id: func(e *rt.EnergyReading) []column {
			return []column{{"source", &e.Source}, {"domain", &e.Domain}, {"kind", (*string)(&e.Kind)}, {"socket", &e.Socket}}
		},
		values: func(e *rt.EnergyReading) []column { return numbered(&e.Energy, &e.Power) },
	}
	perfKind = kind[rt.PerfReading]{
		table: "perf", readings: counters,
		identity: func(p *rt.PerfReading) rt.PerfReading {
			return rt.PerfReading{Group: p.Group, Socket: p.Socket, CPU: p.CPU, Event: p.Event}
		},
		id: func(p *rt.PerfReading) []column {
			return []column{{`"group"`, &p.Group}, {"socket", &p.Socket}, {"cpu", &p.CPU}, {"event", &p.Event}}
		},
		values: func(p *rt.PerfReading) []column { return numbered(&p.Value, &p.TimeEnabled, &p.TimeRunning) },
	}
)

// counters is the table of readings that several kinds share.
var counters = readings{table: readingsOfCounters, device: "device"}

// numbered are the columns of counter_value.
func numbered(fields ...any) []column {
	list := make([]column, len(fields))
	for i, f := range fields {
		list[i] = column{[...]string{"value1", "value2", "value3", "value4"}[i], f}
	}
	return list
}

// kindWriter is a deviceWriter of a kind. Its statements are prepared when the
// first one is there: most runs have few kinds.
type kindWriter[T comparable] struct {
	deviceWriter[T, T]
	kind  *kind[T]
	c     *conn
	bound T // what the columns point into
	ready bool
}

func (w *kindWriter[T]) open(c *conn, k *kind[T], counts *[numReadings]deviceCount) {
	w.c, w.kind, w.count = c, k, &counts[k.readings.table]
	id, values := k.id(&w.bound), k.values(&w.bound)
	bind := func(columns []column) func(*stmt, T) {
		return func(s *stmt, v T) {
			w.bound = v
			for i, c := range columns {
				s.args[2+i].Value = encode(c.field)
			}
		}
	}
	w.bindID, w.bindValue = bind(id), bind(values)
}

func (w *kindWriter[T]) prepare() (err error) {
	id, values := w.kind.id(&w.bound), w.kind.values(&w.bound)
	from := w.kind.readings
	w.insertID, err = w.c.prepare("INSERT INTO " + w.kind.table + " (id, slot, " + names(id) + ") VALUES (" + placeholders(2+len(id)) + ")")
	if err != nil {
		return err
	}
	w.insertReading, err = w.c.prepare("INSERT INTO " + readingTables[from.table].name + " (seq, " + from.device + ", " +
		names(values) + ", gone) VALUES (" + placeholders(3+len(values)) + ")")
	w.ready = err == nil
	return err
}

// putAll writes the readings of snapshot seq.
func (w *kindWriter[T]) putAll(seq int64, keyframe bool, list []T) error {
	if len(list) > 0 && !w.ready {
		if err := w.prepare(); err != nil {
			return err
		}
	}
	for i := range list {
		if err := w.put(seq, keyframe, i, w.kind.identity(&list[i]), list[i]); err != nil {
			return err
		}
	}
	return nil
}

// kindWriters are the writers of all kinds.
type kindWriters struct {
	step       kindWriter[rt.StepReading]
	process    kindWriter[rt.ProcessReading]
	gpuProcess kindWriter[rt.GPUProcessReading]
	fabric     kindWriter[rt.FabricReading]
	remoteFS   kindWriter[rt.RemoteFSReading]
	energy     kindWriter[rt.EnergyReading]
	perf       kindWriter[rt.PerfReading]
}

func (w *kindWriters) open(c *conn, counts *[numReadings]deviceCount) {
	w.step.open(c, &stepKind, counts)
	w.process.open(c, &processKind, counts)
	w.gpuProcess.open(c, &gpuProcessKind, counts)
	w.fabric.open(c, &fabricKind, counts)
	w.remoteFS.open(c, &remoteFSKind, counts)
	w.energy.open(c, &energyKind, counts)
	w.perf.open(c, &perfKind, counts)
}

func (w *kindWriters) putKinds(seq int64, keyframe bool, s *rt.Snapshot) error {
	err := w.step.putAll(seq, keyframe, s.Steps)
	if err == nil {
		err = w.process.putAll(seq, keyframe, s.Procs)
	}
	if err == nil {
		err = w.gpuProcess.putAll(seq, keyframe, s.GPUProcesses)
	}
	if err == nil {
		err = w.fabric.putAll(seq, keyframe, s.Fabrics)
	}
	if err == nil {
		err = w.remoteFS.putAll(seq, keyframe, s.RemoteFS)
	}
	if err == nil {
		err = w.energy.putAll(seq, keyframe, s.Energy)
	}
	if err == nil {
		err = w.perf.putAll(seq, keyframe, s.Perf)
	}
	return err
}

// kindReaders are the readers of all kinds.
type kindReaders struct {
	step       deviceReader[rt.StepReading]
	process    deviceReader[rt.ProcessReading]
	gpuProcess deviceReader[rt.GPUProcessReading]
	fabric     deviceReader[rt.FabricReading]
	remoteFS   deviceReader[rt.RemoteFSReading]
	energy     deviceReader[rt.EnergyReading]
	perf       deviceReader[rt.PerfReading]
}

// openKind opens a reader.
func openKind[T comparable](c *conn, d *deviceReader[T], k *kind[T], from *keyframe) error {
	bound := new(T)
	columns := k.values(bound)
	where := k.readings
	where.values = names(columns)
	return d.open(c, k.table, where, from, k.id, func(row []driver.Value, t *T) error {
		*bound = k.identity(t)
		if err := scan(row, columns); err != nil {
			return err
		}
		*t = *bound
		return nil
	})
}

func (d *kindReaders) openKinds(c *conn, from *keyframe) error {
	err := openKind(c, &d.step, &stepKind, from)
	if err == nil {
		err = openKind(c, &d.process, &processKind, from)
	}
	if err == nil {
		err = openKind(c, &d.gpuProcess, &gpuProcessKind, from)
	}
	if err == nil {
		err = openKind(c, &d.fabric, &fabricKind, from)
	}
	if err == nil {
		err = openKind(c, &d.remoteFS, &remoteFSKind, from)
	}
	if err == nil {
		err = openKind(c, &d.energy, &energyKind, from)
	}
	if err == nil {
		err = openKind(c, &d.perf, &perfKind, from)
	}
	return err
}

func (d *kindReaders) kindRows() []driver.Rows {
	return []driver.Rows{d.step.rows, d.process.rows, d.gpuProcess.rows, d.fabric.rows, d.remoteFS.rows, d.energy.rows, d.perf.rows}
}

func (d *kindReaders) readKinds(s *rt.Snapshot, keyframe bool) (err error) {
	s.Steps, err = d.step.read(s.Seq, keyframe, s.Steps)
	if err == nil {
		s.Procs, err = d.process.read(s.Seq, keyframe, s.Procs)
	}
	if err == nil {
		s.GPUProcesses, err = d.gpuProcess.read(s.Seq, keyframe, s.GPUProcesses)
	}
	if err == nil {
		s.Fabrics, err = d.fabric.read(s.Seq, keyframe, s.Fabrics)
	}
	if err == nil {
		s.RemoteFS, err = d.remoteFS.read(s.Seq, keyframe, s.RemoteFS)
	}
	if err == nil {
		s.Energy, err = d.energy.read(s.Seq, keyframe, s.Energy)
	}
	if err == nil {
		s.Perf, err = d.perf.read(s.Seq, keyframe, s.Perf)
	}
	return err
}
