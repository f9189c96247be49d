package top

import (
	"fmt"

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
	if cur == nil {
		p.head = []string{"nothing has been read yet"}
		return p
	}
	line := func(label, format string, args ...any) {
		p.head = append(p.head, fmt.Sprintf("%-10s ", label)+fmt.Sprintf(format, args...))
	}
	if cur.Job.Phase == rt.JobPending {
		line("Job", "its cgroup has not appeared yet: none of its processes runs")
	}
	j := &d.Job
	alloc := toFloat(allocated(j.Run, cur))
	used := share(j.Cores, alloc)
	line("CPU", "%s%s", pad(shown(j.Cores, cores)+" of "+shown(alloc, decimal)+" cores", labelWidth, false), d.gauge(b, used, j.cores, alloc.Or(0)))
	line("", "total %s  mean %s  %s", shown(j.CPUSecs, cpuTime), shown(j.MeanCores, cores), d.split())
	limit := shownSize(j.Limit)
	if j.Unlimited {
		limit = "none"
	}
	line("Memory", "%s%s", pad(shownSize(j.Memory)+" of "+limit, labelWidth, false), d.gauge(b, share(toFloat(j.Memory), toFloat(j.Limit)), j.memory, toFloat(j.Limit).Or(0)))
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

// gauge formats a percentage with its bar and sparkline.
func (d *Detail) gauge(b brush, pct rt.Opt[float64], values []rt.Opt[float64], top float64) string {
	rest := b.width - lineLabel - labelWidth - 9 - barWidth - 1
	return fmt.Sprintf("%7s  %s %s", withPercent(pct), b.bar(pct, barWidth), b.spark(values, top, rest))
}

func withPercent(v rt.Opt[float64]) string {
	if !v.Valid() {
		return notRead
	}
	return shown(v, percent) + "%"
}

// split formats the parts of the interval's CPU time.
func (d *Detail) split() string {
	c := &d.Cur.Job
	if d.Prev == nil || c.Phase == rt.JobNone {
		return ""
	}
	q := &d.Prev.Job
	secs := d.secs()
	return fmt.Sprintf("user %s  system %s  throttled %s", shown(scaled(perSecond(q.CPUUser, c.CPUUser, secs), 1e-6), cores),
		shown(scaled(perSecond(q.CPUSystem, c.CPUSystem, secs), 1e-6), cores), shown(scaled(perSecond(q.CPUThrottled, c.CPUThrottled, secs), 1e-6), cores))
}

// lists adds the lines that summarize the other pages.
func (d *Detail) lists(line func(label, format string, args ...any)) {
	cur := d.Cur
	stalls := pressures(d)
	line("Waited", "for CPU %s  memory %s  I/O %s of the time", withPercent(stalls[0].some), withPercent(stalls[1].some), withPercent(stalls[2].some))
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
	rx, tx := rt.None[float64](), rt.None[float64]()
	if d.Prev != nil {
		rx, tx = perSecond(d.Prev.Node.NetRxBytes, cur.Node.NetRxBytes, d.nodeSecs()), perSecond(d.Prev.Node.NetTxBytes, cur.Node.NetTxBytes, d.nodeSecs())
	}
	line("Node", "load %s  memory %s of %s  network in %s  out %s", shown(scaled(toFloat(cur.Node.Load1), 0.01), fraction),
		shownSize(cur.Node.MemUsed()), shownSize(cur.Node.MemTotal), rate(rx), rate(tx))
	energy := notRead
	if e := energies(d); len(e) > 0 {
		energy = fmt.Sprintf("%s %s %s W", e[0].kind, report.Plain(e[0].domain), shown(e[0].watts, decimal))
		for _, o := range e[1:min(len(e), 3)] {
			energy += fmt.Sprintf("  %s %s %s W", o.kind, report.Plain(o.domain), shown(o.watts, decimal))
		}
	}
	line("Energy", "%s", energy)
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
