package top

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

// Columns of the labels, of a figure and of a bar on the first page.
const (
	lineLabel  = 11
	labelWidth = 20
	barWidth   = 20
)

// overview is the first page of a run, a summary.
func overview(d *Detail, b brush) page {
	p := page{name: "overview"}
	cur := d.Cur
	line := func(label, format string, args ...any) {
		p.head = append(p.head, fmt.Sprintf("%-10s ", label)+fmt.Sprintf(format, args...))
	}
	if cur.Job.Phase == rt.JobPending {
		line("Job", "its cgroup has not appeared yet: none of its processes runs")
	}
	j := &d.Job
	alloc := rt.Scaled(cmp.Or(j.AllocCPUs, cur.Node.CPUs), 1)
	used := share(j.Cores, alloc)
	line("CPU", "%s%s", pad(shown(j.Cores, cores)+" of "+shown(alloc, decimal)+" cores", labelWidth, false), d.gauge(b, used, j.cores, alloc.Or(0)))
	line("", "total %s  mean %s  %s", shown(j.CPUSecs, cpuTime), shown(j.MeanCores, cores), d.split())
	limit := limitCell(&j.Figures).text
	line("Memory", "%s%s", pad(atMost(j.IsAtMost)+shownSize(j.Memory)+" of "+limit, labelWidth, false), d.gauge(b, share(rt.Scaled(j.Memory, 1), rt.Scaled(j.Limit, 1)), j.memory, rt.Scaled(j.Limit, 1).Or(0)))
	if cur.Job.Phase != rt.JobNone {
		m := &cur.Job
		line("", "peak %s  anon %s  file %s  shmem %s  swap %s  OOM kills %s", shownSize(m.MemPeak), shownSize(m.Anon),
			shownSize(m.File), shownSize(m.Shmem), shownSize(m.Swap), count(m.EventsOOMKill).text)
	}
	wide := b.width - lineLabel - labelWidth - 9
	line("Read", "%s%s", pad(rate(j.ReadRate), labelWidth+9, false), b.spark(d.read, 0, wide))
	line("Write", "%s%s", pad(rate(j.WriteRate), labelWidth+9, false), b.spark(d.write, 0, wide))
	d.lists(line)
	return p
}

// atMost marks a memory that can be less.
func atMost(is bool) string {
	if is {
		return "≤"
	}
	return ""
}

// gauge formats a percentage with its bar and sparkline.
func (d *Detail) gauge(b brush, pct rt.Opt[float64], values []rt.Opt[float64], top float64) string {
	rest := b.width - lineLabel - labelWidth - 9 - barWidth - 1
	return fmt.Sprintf("%7s  %s %s", withUnit(pct, percent, "%"), b.bar(pct, barWidth), b.spark(values, top, rest))
}

// split formats the parts of the interval's CPU time.
func (d *Detail) split() string {
	c := &d.Cur.Job
	if d.Prev == nil || c.Phase == rt.JobNone {
		return ""
	}
	q := &d.Prev.Job
	secs := d.secs()
	return fmt.Sprintf("user %s  system %s  throttled %s", shown(rt.Scaled(perSecond(q.CPUUser, c.CPUUser, secs), 1e-6), cores),
		shown(rt.Scaled(perSecond(q.CPUSystem, c.CPUSystem, secs), 1e-6), cores), shown(rt.Scaled(perSecond(q.CPUThrottled, c.CPUThrottled, secs), 1e-6), cores))
}

// lists adds the lines that summarize the other pages.
func (d *Detail) lists(line func(label, format string, args ...any)) {
	cur := d.Cur
	stalls := pressures(d)
	line("Waited", "for CPU %s  memory %s  I/O %s of the time", withUnit(stalls[0].some, percent, "%"), withUnit(stalls[1].some, percent, "%"), withUnit(stalls[2].some, percent, "%"))
	running, ended := 0, 0
	for i := range d.Steps {
		switch {
		case d.Steps[i].Task.Valid():
		case d.Steps[i].Ended:
			ended++
		default:
			running++
		}
	}
	line("Processes", "%s  threads %s  steps %d running, %d ended", count(d.Job.Processes).text, count(cur.Job.Threads).text, running, ended)
	line("GPUs", "%s", d.gpus())
	q := &d.before().Node
	rx, tx := perSecond(q.NetRxBytes, cur.Node.NetRxBytes, d.nodeSecs()), perSecond(q.NetTxBytes, cur.Node.NetTxBytes, d.nodeSecs())
	line("Node", "load %s  memory %s of %s  network in %s  out %s", shown(rt.Scaled(cur.Node.Load1, 0.01), fraction),
		shownSize(cur.Node.MemInUse()), shownSize(cur.Node.MemTotal), rate(rx), rate(tx))
	var energy []string
	for _, e := range energies(d) {
		energy = append(energy, fmt.Sprintf("%s %s %s W", e.Kind, report.Plain(e.Domain), shown(e.watts, decimal)))
	}
	line("Energy", "%s", cmp.Or(strings.Join(energy[:min(len(energy), 3)], "  "), notRead))
}

// gpus formats the use of the GPUs: by the job if that is known, else by all processes.
func (d *Detail) gpus() string {
	use, user := d.Cur.GPU, ""
	if n := &d.Cur.Node; !use.Valid() {
		use, user = rt.GPUUse{Usage: n.GPUUsage, VRAMUsed: n.GPUVRAMUsed}, "  (by anybody)"
	}
	switch {
	case !use.Valid():
		return notRead
	case len(d.Cur.GPUs) == 0:
		return "none was found on the node"
	}
	return fmt.Sprintf("%s in use of %d on the node  memory %s%s", shown(use.Usage, fraction), len(d.Cur.GPUs), shownSize(use.VRAMUsed), user)
}
