package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// oom writes the first kills, each with the largest processes just before.
func (p *runPage) oom() {
	const shown = 2
	for i := range p.sum.OOM[:min(shown, len(p.sum.OOM))] {
		k := &p.sum.OOM[i]
		where := onlyIf(k.Step != "", " in step "+Plain(k.Step)+onlyIf(k.Task.Valid(), ", task "+count(k.Task)))
		p.list("  killed", fmt.Sprintf("%s at %s%s, limit %s, the kernel's peak %s", plural(int(k.Kills), "process"), k.Time.In(p.o.Zone).Format("15:04:05"), where, Size(k.LimitBytes), Size(p.sum.Memory.PeakBytes)))
		growth := onlyIf(k.GrowthBytesPerSec.Or(0) > 0, ", growing by "+bytes(k.GrowthBytesPerSec)+" a second")
		if k.BeforeBytes.Valid() {
			p.fit("  reading", fmt.Sprintf("%s, %s earlier%s", Size(k.BeforeBytes), Clock(k.BeforeAgeSecs), growth))
		}
		if len(k.Biggest) > 0 {
			p.fit("  largest", joined(k.Biggest, func(b *Process) string { return Size(b.RSSBytes) })+onlyIf(k.BiggestAgeSecs.Valid(), ", "+Clock(k.BiggestAgeSecs)+" earlier"))
		}
	}
	if more := len(p.sum.OOM) - shown; more > 0 {
		p.line("", "and %d more times", more)
	}
}

func joined(list []Process, figure func(*Process) string) string {
	var out []string
	for i := range list {
		q := &list[i]
		out = append(out, fmt.Sprintf("%s[%d]%s %s", Plain(q.Comm), q.PID, onlyIf(q.Task.Valid(), " task "+count(q.Task)), figure(q)))
	}
	return strings.Join(out, ", ")
}

// topProcesses lists the processes that used most, as far as they fit on a line.
func (p *runPage) topProcesses(top []Process) {
	if len(top) == 0 {
		return
	}
	both := func(q *Process) string { return Clock(q.UsedSecs) + " " + Size(q.RSSBytes) }
	n := min(len(top), 3)
	for n > 1 && len([]rune(joined(top[:n], both))) > p.room()-labelWidth {
		n--
	}
	p.line("  most CPU", "%s", joined(top[:n], both))
	largest := slices.MinFunc(top, func(a, b Process) int { return byMemory(&a, &b) })
	if !slices.Contains(top[:n], largest) {
		p.line("  largest", "%s", joined([]Process{largest}, both))
	}
}

// steps writes a line for each step that used anything, with its tasks.
func (p *runPage) steps() {
	const shown = 6
	var list []*Step
	for i := range p.sum.Steps {
		if st := &p.sum.Steps[i]; st.UsedSecs.Or(1) >= 0.005 || st.Step != "extern" {
			list = append(list, st)
		}
	}
	if more := len(list) - shown; more > 0 { // the busiest, in the order of the steps
		busiest := slices.Clone(list)
		slices.SortStableFunc(busiest, func(a, b *Step) int { return -cmp.Compare(a.UsedSecs.Or(0), b.UsedSecs.Or(0)) })
		list = slices.DeleteFunc(list, func(st *Step) bool { return !slices.Contains(busiest[:shown], st) })
		defer func() { p.line("", "and %s that used less", plural(more, "step")) }()
	}
	for i, st := range list {
		tasks := ""
		if n := len(st.Tasks); n > 0 {
			tasks = "; " + plural(n, "task")
			if unseen := p.sum.Record.Unseen; unseen > 0 && st.Step == p.sum.Run.Step {
				tasks += fmt.Sprintf(", %d not to the end", unseen)
			}
		}
		p.fit(onlyIf(i == 0, "Steps"), fmt.Sprintf("%-11s %s CPU, peak %s%s", Plain(st.Step), st.Used.Text(), st.PeakMemory.Text(), tasks))
		p.tasks(st)
	}
}

// tasks writes each task, or the imbalance if there are many.
func (p *runPage) tasks(st *Step) {
	const few = 8
	if len(st.Tasks) < 2 {
		return
	}
	busiest := most(st.Tasks, func(f *Figures) float64 { return f.UsedSecs.Or(0) })
	fullest := most(st.Tasks, func(f *Figures) float64 { return float64(f.PeakBytes.Or(0)) })
	if !busiest.UsedSecs.Valid() && !fullest.PeakBytes.Valid() {
		return
	}
	of := func(t Task) string {
		return fmt.Sprintf("task %-3d %10s %8s  ", t.Task, t.UsedMark.Sign(Clock(t.UsedSecs)), t.PeakMark.Sign(Size(t.PeakBytes)))
	}
	for i := 0; i < len(st.Tasks) && len(st.Tasks) <= few; i += 2 {
		line := of(st.Tasks[i])
		if i+1 < len(st.Tasks) {
			line += of(st.Tasks[i+1])
		}
		p.line("", "  %s", line)
	}
	if len(st.Tasks) > few {
		p.line("", "  busiest %s", of(busiest))
		p.line("", "  largest %s", of(fullest))
	}
	p.line("", "  max/mean: CPU %s (task %d), memory %s (task %d)", Number(st.CPUImbalance, "%.2f"), busiest.Task,
		Number(st.MemoryImbalance, "%.2f"), fullest.Task)
}

// node writes the block of the whole node, which includes other jobs.
func (p *runPage) node() {
	n := &p.sum.Node
	if p.sum.Scope != ScopeNode {
		isMapped := p.sum.Scope == ScopeTree && p.sum.Memory.PeakBytes.Or(0) > n.MaxMemoryBytes.Or(0) // the tree maps files
		parts := present(", ", Number(n.MeanCores, "%.2f")+" of "+count(n.CPUs)+" cores busy",
			onlyIf(n.MeanLoad.Valid(), "load "+Number(n.MeanLoad, "%.2f")+" (max "+Number(n.MaxLoad, "%.2f")+")"),
			onlyIf(n.MaxMemoryBytes.Valid(), "memory "+Size(n.MaxMemoryBytes)+onlyIf(isMapped, " and caches "+Size(n.MaxCacheBytes))))
		short := p.sum.Record.Readings > 1 && p.sum.Record.Last.Sub(p.sum.Record.First) < shortest
		known := n.MeanCores.Valid() || n.MeanLoad.Valid() || n.MaxMemoryBytes.Valid()
		if known && !short {
			p.fit("Whole node", parts)
		}
	}
	if p.sum.Network.Reason != "" {
		p.line("  network", "-%s", because(p.sum.Network.Reason))
	} else {
		p.line("  network", "received %s, sent %s (whole node)", Size(p.sum.Network.RecvBytes), Size(p.sum.Network.SentBytes))
	}
	for _, f := range n.Fabrics {
		p.line("  fabric", "%s port %d: received %s, sent %s (whole node)", Plain(f.Device), f.Port, Size(f.RecvBytes), Size(f.SentBytes))
	}
	for _, f := range n.RemoteFS {
		p.line("  "+Plain(f.Kind), "%s: read %s, written %s, %s calls (whole node)", Plain(cmp.Or(f.MountPoint, f.Source)), Size(f.ReadBytes), Size(f.WriteBytes), count(f.Ops))
	}
}

// energy lists the domains; "n/a" is a domain without a measurement.
func (p *runPage) energy() {
	var parts []string
	for i := range p.sum.Energy {
		e := &p.sum.Energy[i]
		figure := "n/a"
		switch {
		case e.Joules.Valid():
			figure = fmt.Sprintf("%s (%s)", Joules(e.Joules), Number(e.Watts, "%.1f W"))
		case e.Watts.Valid():
			figure = Number(e.Watts, "%.1f W")
		}
		parts = append(parts, Plain(e.Domain)+" "+figure)
	}
	if len(parts) > 0 {
		p.list("Energy", strings.Join(parts, ", ")+"; of all that ran")
	}
}

// mostSensors bounds the sensors on the screen; --json has all.
const mostSensors = 4

func (p *runPage) sensors() {
	for i, of := range p.sum.Others {
		if i == mostSensors {
			p.line("", "and %d more, see --json", len(p.sum.Others)-i)
			return
		}
		figure := ""
		switch {
		case of.MeanWatts.Valid():
			figure = Number(of.MeanWatts, ", mean %.1f W")
		case of.Joules.Valid():
			figure = ", " + Joules(of.Joules)
		case of.MeanPct.Valid():
			figure = Number(of.MeanPct, ", mean %.1f %% of the CPUs")
		}
		p.line(onlyIf(i == 0, "Reports of"), "%s about %s: %d %s%s", Plain(of.Sensor), Plain(of.Target), of.Reports, Plain(of.Kind), figure)
	}
}
