package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// noun is what is shown: a job, or the run of a command.
func (d *Detail) noun() string {
	if d.Job.JobID.Valid() {
		return "job"
	}
	return "run"
}

// owner is the head of a column that belongs to the job.
func (d *Detail) owner() string { return strings.ToUpper(d.noun()) + "'S" }

// coresPage shows the logical CPUs of the node.
func coresPage(d *Detail, b brush) page {
	p := page{
		name: "cpus", empty: "no CPUs were read",
		columns: []column{{"CPU", "cpu", 5, 0, false}, {d.owner(), "in_job", 5, 0, true}, {"BUSY%", "busy_pct", 6, 0, false}, {"", "", 0, 0, true}},
	}
	p.head = []string{"All online CPUs of the node; " + d.owner() + " marks those that the " + d.noun() + " may use"}
	s := rt.Derive(d.Prev, d.Cur, rt.ScopeNode)
	for i, c := range d.Cur.CPUs {
		busy := s.CPU.PerCorePct[i]
		if d.Prev == nil {
			busy.Clear()
		}
		p.rows = append(p.rows, row{id: fmt.Sprint(c.CPU), cells: []cell{
			name(rt.Some(uint64(c.CPU))), yesNo(d.mine.has(c.CPU)), number(busy, percent), {draw: func(n int) string { return b.bar(busy, n) }},
		}})
	}
	return p
}

// yesNo shows whether something belongs to the job.
func yesNo(v rt.Opt[bool]) cell {
	mine, ok := v.Get()
	switch {
	case !ok:
		return cell{text: notRead}
	case mine:
		return cell{text: "yes", value: "yes"}
	}
	return cell{text: "no", value: "no"}
}

// memoryPage shows the kinds of memory and their share of the limit.
func memoryPage(d *Detail, b brush) page {
	p := page{
		name: "memory", empty: "no memory was read",
		columns: []column{{"MEMORY", "kind", 26, 0, true}, {"SIZE", "bytes", 6, 0, false}, {"OF LIMIT%", "limit_pct", 9, 0, false}, {"", "", 0, 0, true}},
	}
	limit := rt.Scaled(d.Job.Limit, 1)
	add := func(kind string, v rt.Opt[uint64]) {
		pct := share(rt.Scaled(v, 1), limit)
		if strings.HasPrefix(kind, "node:") && d.Cur.Job.Phase != rt.JobNone { // the limit is the job's
			pct.Clear()
		}
		p.rows = append(p.rows, row{id: kind, alarm: kind == "charged" && pct.Or(0) >= nearLimit, cells: []cell{
			word(kind), bytesOf(v), number(pct, percent), {draw: func(n int) string { return b.bar(pct, n) }},
		}})
	}
	if m, n := &d.Cur.Job, &d.Cur.Node; m.Phase != rt.JobNone {
		p.head = []string{fmt.Sprintf("Limit %s, reached %s times, high %s; OOM %s, killed %s; major faults %s", limitCell(&d.Job.Figures).text,
			count(m.EventsMax).text, count(m.EventsHigh).text, count(m.EventsOOM).text, count(m.EventsOOMKill).text, count(m.MajorFaults).text)}
		add("charged", m.MemCurrent)
		add("highest so far", m.MemPeak)
		add("highest in the interval", m.MemIntervalPeak)
		add("  anonymous", m.Anon)
		add("  file cache", m.File)
		add("  shared (in file cache)", m.Shmem)
		add("  kernel", m.Kernel)
		add("  reclaimable slab", m.SlabReclaimable)
		add("swap", m.Swap)
		add("huge pages", m.HugeTLB)
		add("node: available", n.MemAvailable)
	} else {
		p.head = []string{"Of the node " + shownSize(n.MemTotal)}
		memory, isAtMost := d.Cur.Tree.Memory(n)
		if isAtMost {
			add("process tree, at most", memory)
		} else {
			add("process tree", memory)
		}
		add("node: used", n.MemInUse())
		add("node: caches", n.CachedAll())
		add("node: available", n.MemAvailable)
	}
	return p
}

// gpusPage shows the GPUs of the node, each with the job's processes on it.
func gpusPage(d *Detail, b brush) page {
	p := page{
		name: "gpus", empty: "no GPUs were read",
		columns: []column{
			{"GPU", "uuid", 8, 0, true}, {"NAME", "name", 10, 3, true}, {d.owner(), "in_job", 5, 2, true}, {"UTIL%", "utilization_pct", 6, 0, false},
			{"MEM", "vram_used_bytes", 5, 0, false}, {"OF", "vram_total_bytes", 5, 0, false}, {"TEMP", "temperature_celsius", 4, 1, false},
			{"WATTS", "power_watts", 6, 1, false}, {"MHZ", "frequency_mhz", 5, 4, false}, {"PROCESSES", "processes", 12, 2, true}, {"", "", 0, 5, true},
		},
	}
	for i := range d.Cur.GPUs {
		g := &d.Cur.GPUs[i]
		p.rows = append(p.rows, row{id: g.UUID, cells: []cell{
			word(g.UUID), word(g.Name), yesNo(g.InJob), number(g.Utilization, percent), bytesOf(g.VRAMUsed), bytesOf(g.VRAMTotal), count(g.Temperature),
			number(g.Power, decimal), count(g.Frequency), word(processesOn(d.Cur, g.UUID)), {draw: func(n int) string { return b.bar(g.Utilization, n) }},
		}})
	}
	return p
}

func processesOn(s *rt.Snapshot, uuid string) string {
	var list []string
	for i := range s.GPUProcesses {
		if q := &s.GPUProcesses[i]; q.UUID == uuid {
			list = append(list, fmt.Sprintf("%d:%s", q.PID, shownSize(q.VRAMUsed)))
		}
	}
	return strings.Join(list, " ")
}

// ioPage shows the I/O of the job and of the node's devices.
func ioPage(d *Detail, _ brush) page {
	p := page{
		name: "io", empty: "no I/O was read",
		columns: []column{
			{"OF", "of", 7, 0, true}, {"WHAT", "name", 14, 0, true}, {"READ/s", "read_bytes_per_sec", 6, 0, false}, {"WRIT/s", "write_bytes_per_sec", 6, 0, false},
			{"READ", "read_bytes", 6, 0, false}, {"WRITTEN", "write_bytes", 7, 0, false}, {"ABOUT", "about", 10, 1, true},
		},
	}
	p.head = []string{"Networks: received is READ, sent is WRITTEN"}
	prev := d.before()
	add := func(of, what, about string, r, w [2]rt.Opt[uint64]) {
		secs := d.nodeSecs()
		if of == "job" {
			secs = d.secs()
		}
		p.rows = append(p.rows, row{id: of + what, cells: []cell{word(of), word(what), number(perSecond(r[0], r[1], secs), size),
			number(perSecond(w[0], w[1], secs), size), bytesOf(r[1]), bytesOf(w[1]), word(about)}})
	}
	type pair = [2]rt.Opt[uint64]
	if c, q := &d.Cur.Job, &prev.Job; c.Phase != rt.JobNone {
		add("job", "block devices", "io controller", pair{q.IOReadBytes, c.IOReadBytes}, pair{q.IOWriteBytes, c.IOWriteBytes})
		add("job", "processes", "as they counted", pair{q.ProcReadBytes, c.ProcReadBytes}, pair{q.ProcWriteBytes, c.ProcWriteBytes})
	}
	for i := range d.Cur.Disks {
		c := &d.Cur.Disks[i]
		q := find(prev.Disks, func(o *rt.DiskReading) bool { return o.Name == c.Name })
		add("disk", c.Name, strings.TrimSpace(c.Type+" "+c.Model), pair{q.ReadBytes, c.ReadBytes}, pair{q.WriteBytes, c.WriteBytes})
	}
	for i := range d.Cur.Nets {
		c := &d.Cur.Nets[i]
		q := find(prev.Nets, func(o *rt.NetReading) bool { return o.Name == c.Name })
		add("network", c.Name, c.OperState, pair{q.RxBytes, c.RxBytes}, pair{q.TxBytes, c.TxBytes})
	}
	for i := range d.Cur.Fabrics {
		c := &d.Cur.Fabrics[i]
		q := find(prev.Fabrics, func(o *rt.FabricReading) bool { return o.Device == c.Device && o.Port == c.Port })
		add("fabric", fmt.Sprintf("%s/%d", c.Device, c.Port), c.Link+" "+c.State, pair{q.RxBytes, c.RxBytes}, pair{q.TxBytes, c.TxBytes})
	}
	for i := range d.Cur.RemoteFS {
		c := &d.Cur.RemoteFS[i]
		q := find(prev.RemoteFS, func(o *rt.RemoteFSReading) bool { return o.Source == c.Source && o.MountPoint == c.MountPoint })
		add(c.Kind, c.Source, c.MountPoint, pair{q.ReadBytes, c.ReadBytes}, pair{q.WriteBytes, c.WriteBytes})
	}
	return p
}

// find returns the same element of another list, the zero value if there is none.
func find[T any](list []T, same func(*T) bool) *T {
	return cmp.Or(rt.Find(list, 0, same), new(T))
}

// stall is how long tasks of the job waited for a resource.
type stall struct {
	of               string
	some, full       rt.Opt[float64] // percent of the interval
	someSec, fullSec rt.Opt[float64] // so far
}

func pressures(d *Detail) [3]stall {
	c, q, secs := &d.Cur.Job, &d.before().Job, d.secs()
	kind := func(of string, qs, qf, cs, cf rt.Opt[uint64]) stall {
		return stall{of, rt.Scaled(perSecond(qs, cs, secs), 1e-4), rt.Scaled(perSecond(qf, cf, secs), 1e-4), rt.Scaled(cs, 1e-6), rt.Scaled(cf, 1e-6)}
	}
	return [3]stall{
		kind("CPU", q.CPUStallSome, q.CPUStallFull, c.CPUStallSome, c.CPUStallFull),
		kind("memory", q.MemStallSome, q.MemStallFull, c.MemStallSome, c.MemStallFull),
		kind("I/O", q.IOStallSome, q.IOStallFull, c.IOStallSome, c.IOStallFull),
	}
}

// pressurePage shows PSI: how long tasks of the job waited.
func pressurePage(d *Detail, b brush) page {
	p := page{
		name: "pressure", empty: "no pressure was read",
		columns: []column{
			{"WAITED FOR", "for", 10, 0, true}, {"SOME%", "some_pct", 6, 0, false}, {"ALL%", "full_pct", 6, 0, false},
			{"SOME", "some_secs", 9, 0, false}, {"ALL", "full_secs", 9, 0, false}, {"", "", 0, 0, true},
		},
	}
	p.head = []string{"% of the interval, and time so far, in which some or all tasks of the " + d.noun() + " waited"}
	for _, s := range pressures(d) {
		p.rows = append(p.rows, row{id: s.of, cells: []cell{word(s.of), number(s.some, percent), number(s.full, percent),
			number(s.someSec, cpuTime), number(s.fullSec, cpuTime), {draw: func(n int) string { return b.bar(s.some, n) }}}})
	}
	return p
}

// power is the use of an energy domain.
type power struct {
	*rt.EnergyReading
	watts, joules rt.Opt[float64]
}

// energies returns the domains, the widest first.
func energies(d *Detail) []power {
	kinds := []rt.EnergyKind{rt.EnergyNode, rt.EnergyPlatform, rt.EnergyPackage, rt.EnergyCore, rt.EnergyUncore, rt.EnergyDRAM, rt.EnergyGPU}
	var out []power
	for i := range d.Cur.Energy {
		c := &d.Cur.Energy[i]
		q := find(d.before().Energy, func(o *rt.EnergyReading) bool {
			return o.Source == c.Source && o.Domain == c.Domain && o.Kind == c.Kind
		})
		watts := rt.Scaled(perSecond(q.Energy, c.Energy, d.secs()), 1e-6)
		out = append(out, power{c, cmp.Or(watts, c.Power), rt.Scaled(c.Energy, 1e-6)})
	}
	slices.SortStableFunc(out, func(a, b power) int { return cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)) })
	return out
}

// energyPage shows the domains that measure energy or power.
func energyPage(d *Detail, _ brush) page {
	p := page{
		name: "energy", empty: "nothing on this node measures energy, or it was not read",
		columns: []column{
			{"KIND", "kind", 8, 0, true}, {"DOMAIN", "domain", 14, 0, true}, {"SOURCE", "source", 10, 1, true}, {"SOCKET", "socket", 6, 2, false},
			{"WATTS", "watts", 8, 0, false}, {"JOULES", "joules", 9, 0, false},
		},
	}
	p.head = []string{"Of the node and its devices, not of the " + d.noun() + " alone; a package holds its cores"}
	for _, e := range energies(d) {
		p.rows = append(p.rows, row{id: e.Source + e.Domain + string(e.Kind), cells: []cell{word(string(e.Kind)), word(e.Domain), word(e.Source), name(e.Socket),
			number(e.watts, decimal), number(e.joules, bigNumber)}})
	}
	return p
}

// cpuSet is a list of CPUs in the kernel's format, "0-3,8"; empty is unknown.
type cpuSet string

// cpusOfJob returns the job's last cpuset in the ledger.
func cpusOfJob(events []rt.Event) (set cpuSet) {
	for i := range events {
		e := &events[i]
		if e.Kind != "job" || e.Name != "cpuset" {
			continue
		}
		for _, field := range strings.Fields(e.Detail) {
			if list, ok := strings.CutPrefix(field, "cpus="); ok {
				set = cpuSet(list)
			}
		}
	}
	return set
}

// has reports whether a CPU is in the list; absent if the list is unknown or malformed.
func (s cpuSet) has(cpu int) (in rt.Opt[bool]) {
	if cpus, ok := procfile.CPUs(string(s)); ok && s != "" {
		in.Set(slices.Contains(cpus, cpu))
	}
	return in
}
