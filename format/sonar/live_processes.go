package sonar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/gpu"
	collecthost "github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/collect/proc"
)

// Machine is a reading of this host and its processes.
type Machine struct {
	snap    rt.Snapshot // Wall, Boot, CPUs, memory, GPUs
	all     []proc.Listed
	gpus    []rt.GPUProcessReading
	details []gpu.Details
	name    func(uid uint64) string
	epoch   uint64 // of this boot
}

// PsOptions configure WritePs.
type PsOptions struct {
	Filter
	RollUp   bool   // one record for the processes of a job with the same command
	Load     bool   // with the load of the host's CPUs and GPUs
	Hostname string // with its domain
	JSON     bool   // not CSV
}

// WritePs prints what sonar ps prints.
func (m *Machine) WritePs(w io.Writer, o PsOptions) error {
	head := Sample{Version: Version, Time: time.Unix(0, m.snap.Wall), Host: o.Hostname}
	list := m.processes(o.Filter)
	if o.RollUp {
		list = rollUp(list)
	}
	samples := make([]Sample, len(list))
	for i := range list {
		samples[i] = list[i].sample(head)
	}
	if o.Load {
		head.Load, head.GPUInfo = loadOf(&m.snap), gpusOf(m.snap.GPUs, m.details)
		if len(samples) > 0 {
			samples[0].Load, samples[0].GPUInfo = head.Load, head.GPUInfo
		}
	}
	return writeSamples(w, &head, samples, o.JSON)
}

// ReadMachine reads the GPUs first, because their drivers may take seconds to wake up.
func ReadMachine(ctx context.Context, fs proc.FS, gpus *gpu.Source) (*Machine, error) {
	m := &Machine{name: userNames()}
	m.snap.GPUs, _ = gpu.ReadOnce(ctx, gpus) // the record has the GPUs that were read
	m.gpus, m.details = gpus.Processes(), gpus.Details()
	cpu, memory := proc.NewCPU(fs), proc.NewMemory(fs)
	err := errors.Join(cpu.Read(&m.snap), memory.Read(&m.snap), cpu.Close(), memory.Close())
	if err != nil {
		return nil, fmt.Errorf("read the CPUs and the memory of this host: %w", err)
	}
	boot, err := collecthost.BootTime(fs.Proc)
	if err != nil {
		return nil, err
	}
	m.epoch = max(boot, epochStart+1) - epochStart
	m.snap.Wall = time.Now().UnixNano()
	var sinceBoot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &sinceBoot); err != nil {
		return nil, fmt.Errorf("read the time since boot: %w", err)
	}
	m.snap.Boot = sinceBoot.Nano()
	if err := proc.List(fs, func(p *proc.Listed) { m.all = append(m.all, *p) }); err != nil {
		return nil, fmt.Errorf("list the processes of this host: %w", err)
	}
	slices.SortFunc(m.all, func(a, b proc.Listed) int { return a.PID - b.PID })
	return m, nil
}

// process is one process, or several that were rolled up. Its percentages are not rounded yet.
type process struct {
	Sample
	ticks uint64 // CPU time
}

// Filter selects processes: if any limit is set, those that reach one of them.
type Filter struct {
	MinCPU          rt.Opt[float64] // percent of a core over the process's life
	MinMemory       rt.Opt[float64] // percent of the host's memory
	MinCPUTime      rt.Opt[float64] // seconds
	NoSystem        bool            // leave out user ids below 1000
	ExcludeUsers    string          // names, separated by commas
	ExcludeCommands string          // prefixes of names, separated by commas
}

// processes returns those that pass the filter.
func (m *Machine) processes(filter Filter) []process {
	use := m.gpuUse()
	var list []process
	for i := range m.all {
		p := &m.all[i]
		s := process{use[p.PID], p.OwnTicks + p.ChildTicks}
		s.User, s.Cmd, s.PID, s.PPID = m.user(p), cmp.Or(p.Comm, NoInfo), uint64(p.PID), uint64(p.PPID)
		s.CPUKiB, s.RSSAnonKiB = p.DataStack.Or(0)>>10, p.RSSAnon.Or(0)>>10
		var isSlurm bool
		s.Job, isSlurm = jobOf(p)
		if !isSlurm {
			s.Epoch = m.epoch
		}
		if life := float64(m.snap.Boot)/1e9 - float64(p.Start)/rt.TicksPerSecond; life > 0 {
			s.CPUPct = float64(p.OwnTicks) / rt.TicksPerSecond / life * 100
		}
		if filter.passes(&s, p, m.snap.Node.MemTotal.Or(0)) {
			list = append(list, s)
		}
	}
	return list
}

func (f *Filter) passes(s *process, p *proc.Listed, memTotal uint64) bool {
	uid, known := p.UID.Get()
	isSystem := known && uid < 1000
	hasPrefix := func(prefix string) bool { return strings.HasPrefix(s.Cmd, prefix) }
	switch {
	case f.NoSystem && isSystem, slices.Contains(splitList(f.ExcludeUsers), s.User):
		return false
	case slices.ContainsFunc(splitList(f.ExcludeCommands), hasPrefix):
		return false
	case !f.MinCPU.Valid() && !f.MinMemory.Valid() && !f.MinCPUTime.Valid():
		return true
	}
	memory := rt.None[float64]()
	if memTotal > 0 {
		memory.Set(float64(p.RSS) / float64(memTotal) * 100)
	}
	return reaches(rt.Some(s.CPUPct), f.MinCPU) || reaches(memory, f.MinMemory) ||
		reaches(rt.Some(float64(s.ticks)/rt.TicksPerSecond), f.MinCPUTime)
}

// reaches reports whether v is at least a limit; false if one of them is absent.
func reaches(v, limit rt.Opt[float64]) bool {
	x, known := v.Get()
	least, isSet := limit.Get()
	return known && isSet && x >= least
}

func (m *Machine) user(p *proc.Listed) string {
	uid, ok := p.UID.Get()
	switch {
	case ok:
		return m.name(uid)
	case p.State == 'Z':
		return fmt.Sprintf("_zombie_%d", p.PID)
	}
	return NoInfo
}

// rollUp joins the processes of a Slurm job that have the same user and command. Like Sonar, it
// joins no others.
func rollUp(list []process) []process {
	type key struct {
		job       uint64
		user, cmd string
	}
	at := map[key]int{}
	var out []process
	for _, p := range list {
		k := key{p.Job, p.User, p.Cmd}
		i, ok := at[k]
		if p.Job == 0 || p.Epoch != 0 || !ok {
			at[k] = len(out)
			out = append(out, p)
			continue
		}
		o := &out[i]
		o.RolledUp++
		o.PID = 0
		if o.PPID != p.PPID {
			o.PPID = 0
		}
		o.CPUPct += p.CPUPct
		o.ticks += p.ticks
		o.CPUKiB += p.CPUKiB
		o.RSSAnonKiB += p.RSSAnonKiB
		o.GPUPct += p.GPUPct
		o.GPUMemPct += p.GPUMemPct
		o.GPUKiB += p.GPUKiB
		o.GPUs.Indices = union(o.GPUs.Indices, p.GPUs.Indices)
	}
	return out
}

// sample returns the record. Percentages have three decimals.
func (p *process) sample(head Sample) Sample {
	s := p.Sample
	s.Version, s.Time, s.Host = head.Version, head.Time, head.Host
	s.CPUTimeSec = (p.ticks + rt.TicksPerSecond/2) / rt.TicksPerSecond
	s.CPUPct, s.GPUPct, s.GPUMemPct = thousandth(s.CPUPct), thousandth(s.GPUPct), thousandth(s.GPUMemPct)
	return s
}
