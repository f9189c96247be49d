package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/gpu"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/format/sonar"
	rtcli "github.com/resource-tracker/rt/internal/cli"
	sonarconv "github.com/resource-tracker/rt/internal/convert/sonar"
)

func sonarPsCommand() *cli.Command {
	return &cli.Command{
		Name:  "ps",
		Usage: "print a record for each process on this host",
		Flags: append(sonarForms(),
			&cli.BoolFlag{Name: "rollup", Usage: "one record for all processes of a job that have the same command"},
			&cli.BoolFlag{Name: "load", Usage: "print what the host's CPUs and GPUs did, too"},
			&cli.Float64Flag{Name: "min-cpu-percent", Usage: "processes that used at least so much of a core over their lives, in `PERCENT`"},
			&cli.Float64Flag{Name: "min-mem-percent", Usage: "processes that hold at least so much of the host's memory, in `PERCENT`"},
			&cli.Float64Flag{Name: "min-cpu-time", Usage: "processes that used at least so much CPU time, in `SECONDS`"},
			&cli.BoolFlag{Name: "exclude-system-jobs", Usage: "leave out the processes of user ids below 1000"},
			&cli.StringFlag{Name: "exclude-users", Usage: "leave out the processes of these users: `NAME,...`"},
			&cli.StringFlag{Name: "exclude-commands", Usage: "leave out the commands that begin so: `PREFIX,...`"},
		),
		OnUsageError: onUsageError,
		Action:       runSonarPs,
	}
}

func runSonarPs(c *cli.Context) error {
	asJSON, err := sonarJSON(c, false)
	if err != nil {
		return err
	}
	fs := proc.NewFS("/proc", "/sys")
	at, err := takeSonar(c.Context, fs, gpu.New("/dev", "/sys", gpu.WithProcesses(), gpu.WithDetails()))
	if err != nil {
		return err
	}
	head := sonar.Sample{Version: sonar.Version, Time: time.Unix(0, at.host.Wall), Host: fqdn(c.Context)}
	filter := sonarFilter{
		cpu: c.Float64("min-cpu-percent"), memory: c.Float64("min-mem-percent"), seconds: c.Float64("min-cpu-time"),
		cpuSet: c.IsSet("min-cpu-percent"), memorySet: c.IsSet("min-mem-percent"), secondsSet: c.IsSet("min-cpu-time"),
		system: c.Bool("exclude-system-jobs"), users: sonarconv.SplitList(c.String("exclude-users")), commands: sonarconv.SplitList(c.String("exclude-commands")),
	}
	list := at.processes(filter)
	if c.Bool("rollup") {
		list = rollUp(list)
	}
	samples := make([]sonar.Sample, len(list))
	for i := range list {
		samples[i] = list[i].sample(head)
	}
	if c.Bool("load") {
		head.Load, head.GPUInfo = sonarconv.Load(&at.host), sonarconv.GPUs(at.host.GPUs, at.details)
		if len(samples) > 0 {
			samples[0].Load, samples[0].GPUInfo = head.Load, head.GPUInfo
		}
	}
	return rtcli.Buffered(c.App.Writer, func(w io.Writer) error { return sonarconv.Write(w, &head, samples, asJSON) })
}

// sonarTaken is what was read of the host at one time.
type sonarTaken struct {
	host    rt.Snapshot // Wall, Boot, CPUs, memory, GPUs
	all     []proc.Listed
	gpus    []rt.GPUProcessReading
	details []gpu.Details
	name    func(uid uint64) string
	job     func(p *proc.Listed) uint64
}

// takeSonar reads the GPUs first, because their drivers may take seconds to wake up.
func takeSonar(ctx context.Context, fs proc.FS, gpus sonarGPUSource) (*sonarTaken, error) {
	at := &sonarTaken{name: userNames(), job: func(p *proc.Listed) uint64 { return jobOf(fs.Proc, p) }}
	kept := keptGPUs{sonarGPUSource: gpus}
	at.host.GPUs = readGPUs(ctx, &kept)
	at.gpus, at.details = kept.processes, kept.details
	cpu, memory := proc.NewCPU(fs), proc.NewMemory(fs)
	err := errors.Join(cpu.Read(&at.host), memory.Read(&at.host), cpu.Close(), memory.Close())
	if err != nil {
		return nil, fmt.Errorf("read what this host does: %w", err)
	}
	at.host.Wall = time.Now().UnixNano()
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return nil, fmt.Errorf("read the time since boot: %w", err)
	}
	at.host.Boot = boot.Nano()
	if err := proc.List(fs, func(p *proc.Listed) { at.all = append(at.all, *p) }); err != nil {
		return nil, fmt.Errorf("list the processes of this host: %w", err)
	}
	slices.SortFunc(at.all, func(a, b proc.Listed) int { return a.PID - b.PID })
	return at, nil
}

// sonarProcess is one process, or several that were rolled up.
type sonarProcess struct {
	user, cmd       string
	job             uint64
	pid, ppid       int
	cpu             float64 // percent of a core
	ticks           uint64
	dataStack, anon uint64 // bytes
	more            uint64 // processes that were rolled up into it
	gpus            []uint32
	gpuUse, gpuMem  float64 // percent of a GPU
	gpuBytes        uint64
}

// sonarFilter says which processes are printed: of those that the limits name,
// where any limit is set, whoever reaches one of them.
type sonarFilter struct {
	cpu, memory, seconds          float64
	cpuSet, memorySet, secondsSet bool
	system                        bool
	users, commands               []string
}

// processes are those that pass the filter.
func (at *sonarTaken) processes(filter sonarFilter) []sonarProcess {
	use := at.gpuUse()
	var list []sonarProcess
	for i := range at.all {
		p := &at.all[i]
		s := sonarProcess{
			user: at.user(p), cmd: p.Comm, pid: p.PID, ppid: p.PPID, job: at.job(p), ticks: p.OwnTicks + p.ChildTicks,
			dataStack: p.DataStack.Or(0), anon: p.RSSAnon.Or(0),
		}
		if s.cmd == "" {
			s.cmd = sonar.NoInfo
		}
		if life := float64(at.host.Boot)/1e9 - float64(p.Start)/rt.TicksPerSecond; life > 0 {
			s.cpu = float64(p.OwnTicks) / rt.TicksPerSecond / life * 100
		}
		if g, ok := use[p.PID]; ok {
			s.gpus, s.gpuUse, s.gpuMem, s.gpuBytes = g.gpus, g.gpuUse, g.gpuMem, g.gpuBytes
		}
		if filter.passes(&s, p, at.host.Node.MemTotal.Or(0)) {
			list = append(list, s)
		}
	}
	return list
}

func (f *sonarFilter) passes(s *sonarProcess, p *proc.Listed, memTotal uint64) bool {
	uid, known := p.UID.Get()
	switch {
	case f.system && known && uid < 1000, slices.Contains(f.users, s.user):
		return false
	case slices.ContainsFunc(f.commands, func(prefix string) bool { return strings.HasPrefix(s.cmd, prefix) }):
		return false
	case !f.cpuSet && !f.memorySet && !f.secondsSet:
		return true
	}
	return f.cpuSet && s.cpu >= f.cpu ||
		f.memorySet && memTotal > 0 && float64(p.RSS)/float64(memTotal)*100 >= f.memory ||
		f.secondsSet && float64(s.ticks)/rt.TicksPerSecond >= f.seconds
}

func (at *sonarTaken) user(p *proc.Listed) string {
	uid, ok := p.UID.Get()
	switch {
	case ok:
		return at.name(uid)
	case p.State == 'Z':
		return fmt.Sprintf("_zombie_%d", p.PID)
	}
	return sonar.NoInfo
}

// rollUp joins the processes of a job that have the same user and command. Those
// without a job are never joined: each may be a job of its own.
func rollUp(list []sonarProcess) []sonarProcess {
	type key struct {
		job       uint64
		user, cmd string
	}
	at := map[key]int{}
	var out []sonarProcess
	for _, p := range list {
		k := key{p.job, p.user, p.cmd}
		i, ok := at[k]
		if p.job == 0 || !ok {
			at[k] = len(out)
			out = append(out, p)
			continue
		}
		o := &out[i]
		o.more++
		o.pid = 0
		if o.ppid != p.ppid {
			o.ppid = 0
		}
		o.cpu += p.cpu
		o.ticks += p.ticks
		o.dataStack += p.dataStack
		o.anon += p.anon
		o.gpuUse += p.gpuUse
		o.gpuMem += p.gpuMem
		o.gpuBytes += p.gpuBytes
		o.gpus = sonarconv.Union(o.gpus, p.gpus)
	}
	return out
}

// sample is the record. Integers are cut off, not rounded, and percentages have
// three decimals.
func (p *sonarProcess) sample(head sonar.Sample) sonar.Sample {
	s := head
	s.User, s.Cmd, s.Job, s.PID, s.PPID = p.user, p.cmd, p.job, uint64(p.pid), uint64(p.ppid)
	s.CPUPct, s.CPUKiB, s.RSSAnonKiB = sonarconv.Thousandth(p.cpu), p.dataStack>>10, p.anon>>10
	s.CPUTimeSec, s.RolledUp = p.ticks/rt.TicksPerSecond, p.more
	s.GPUs.Indices = p.gpus
	s.GPUPct, s.GPUMemPct, s.GPUKiB = sonarconv.Thousandth(p.gpuUse), sonarconv.Thousandth(p.gpuMem), p.gpuBytes>>10
	return s
}
