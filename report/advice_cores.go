package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/resource-tracker/rt"
)

// slower is how much longer a run may take with fewer cores, as a part of its time.
const slower = 0.05

// ThreadUse is the CPU time of a process, and the highest number of its threads at a reading. A
// process uses at most one core for each of its threads.
type ThreadUse struct {
	task    rt.Opt[uint64]
	Secs    float64 `json:"cpu_secs"`
	Threads uint64  `json:"threads"`
}

// maxThreadUses bounds the processes that are kept for the advice about cores.
const maxThreadUses = 256

func (t processTallies) threadUses() (list []ThreadUse) {
	for _, p := range t.sorted(byCPU) {
		secs, used := p.UsedSecs.Get()
		threads, known := p.Threads.Get()
		if !used || !known || secs <= 0 {
			continue
		}
		if len(list) == maxThreadUses {
			break
		}
		list = append(list, ThreadUse{p.Task, secs, threads})
	}
	return list
}

// maxCores is more than the number of cores of any node.
const maxCores = 1 << 16

// CoreGroup is a group of processes that share cores: a task with cores of its own, or the whole
// job on a node.
type CoreGroup struct {
	Secs      float64     `json:"cpu_secs"`
	Cores     uint64      `json:"cores"`
	Processes []ThreadUse `json:"processes,omitempty"` // by CPU time, the largest first
}

// delay returns the maximum number of seconds by which the work takes longer with k cores. A mean
// over an interval is not a peak: the CPU time may have been used in bursts on all cores. Such
// bursts, of secs seconds in total, take secs/k instead of secs/cores. If processes with at most k
// threads together used most of the CPU time, only the rest can have been in such bursts.
func (g *CoreGroup) delay(k uint64) float64 {
	if k >= g.Cores {
		return 0
	}
	most := g.Secs * (1/float64(k) - 1/float64(g.Cores))
	rest, threads := g.Secs, uint64(0)
	for i := range g.Processes {
		p := &g.Processes[i]
		if threads+p.Threads > k {
			continue
		}
		threads += p.Threads
		rest -= p.Secs
	}
	if threads > 0 {
		most = min(most, max(rest, 0)/float64(k))
	}
	return most
}

// coreGroups returns the groups of a node, and the number of tasks among which its cores are divided. The tasks are
// from the step that used most CPU time. If that step has one task, the group is the whole job.
func (s *Summary) coreGroups() (list []CoreGroup, tasks int) {
	if s.sample != nil {
		return s.sample.Groups, s.sample.Tasks
	}
	cores := s.CPU.Cores.Or(0)
	all := CoreGroup{Secs: s.CPU.UsedSecs.Or(0), Cores: cores, Processes: s.threads}
	var main *Step
	for i := range s.Steps {
		if st := &s.Steps[i]; main == nil || st.UsedSecs.Or(0) > main.UsedSecs.Or(0) {
			main = st
		}
	}
	if main == nil || len(main.Tasks) < 2 {
		return []CoreGroup{all}, 1
	}
	tasks = len(main.Tasks)
	each := cores / uint64(tasks)
	rest := all.Secs
	for i := range main.Tasks {
		t := &main.Tasks[i]
		secs, ok := t.UsedSecs.Get()
		if !ok {
			return []CoreGroup{all}, tasks
		}
		rest -= secs
		own := slices.DeleteFunc(slices.Clone(s.threads), func(p ThreadUse) bool { return p.task != rt.Some(t.Task) })
		list = append(list, CoreGroup{Secs: secs, Cores: each, Processes: own})
	}
	return append(list, CoreGroup{Secs: max(rest, 0), Cores: each}), tasks
}

// coresOf is how many cores a node, or each of its tasks, needs for the run to be at most a
// little longer.
type coresOf struct {
	need, have uint64
	tasks      int // per node
	groups     []CoreGroup
	elapsed    float64
}

// needed returns the fewest cores; false if it is not known what was used. The delays of the
// tasks and nodes add up, because each can wait for another one.
func (j *JobSummary) needed() (c coresOf, ok bool) {
	c.elapsed = j.ElapsedSecs.Or(0)
	for _, s := range j.Runs {
		isKnown := s.CPU.CoresOf == "allocation" && s.CPU.UsedSecs.Valid()
		if !isKnown || c.elapsed <= 0 {
			return c, false
		}
		list, tasks := s.coreGroups()
		c.groups = append(c.groups, list...)
		c.tasks = max(c.tasks, tasks)
	}
	for i := range c.groups {
		c.have = max(c.have, c.groups[i].Cores)
	}
	if c.have > maxCores { // the number is from a file
		return c, false
	}
	c.need = 1
	for c.need < c.have && c.delay(c.need) > slower {
		c.need++
	}
	return c, c.have > 0
}

// delay returns how much longer the run takes at most with k cores, as a part of its time.
func (c *coresOf) delay(k uint64) float64 {
	sum := 0.0
	for i := range c.groups {
		sum += c.groups[i].delay(k)
	}
	return sum / c.elapsed
}

// cores advises on the cores of a node or a task, and returns how many CPUs each node then has.
func (a *adviser) cores() (left uint64) {
	left = a.job.Runs.fewestCores()
	one := Advice{Resource: "cores", Verdict: NotKnown, Runs: 1, Explain: []string{
		"a reading has the mean over an interval: it does not show shorter bursts, so no peak is derived from it",
		"fewer cores are advised only if they make the run at most 5 % longer, even if the CPU time was used in the worst possible bursts",
		"a process is assumed to use at most one core for each of the threads that it had at a reading",
	}}
	c, ok := a.job.needed()
	if !ok {
		one.Text = "what was used of the allocated cores is not known"
		a.add(one)
		return left
	}
	p := a.predict(a.values((*JobSummary).neededCores), 1)
	one.Runs = p.n
	left = a.coresFrom(&one, &c, &p, left)
	a.add(one)
	return left
}

func (j *JobSummary) neededCores() (need rt.Opt[float64]) {
	if c, ok := j.needed(); ok {
		need.Set(float64(c.need))
	}
	return need
}

// coresFrom sets the verdict for the cores that the runs of a prediction need, instead of c.have. It
// returns the number of CPUs that each node then has.
func (a *adviser) coresFrom(one *Advice, c *coresOf, p *prediction, left uint64) uint64 {
	n, need := a.job.Nodes, uint64(p.highest)
	show := func(v float64) string { return fmt.Sprintf("%.0f needed", v) }
	used := Number(n.UsedPct, "%.0f %%")
	of, request := plural(int(c.have), "core"), fmt.Sprintf("--cpus-per-task=%d", need)
	if c.tasks > 1 {
		of += " for each task"
	} else {
		request += fmt.Sprintf(" (or --ntasks-per-node=%d)", need)
	}
	of += onlyIf(len(a.job.Runs) > 1, " on each node")
	used += " of " + of + onlyIf(c.have == 1, " was used") + onlyIf(c.have > 1, " were used")
	waited := a.job.Runs.worstWait()
	isOne := c.have == 1 && c.tasks == 1
	isBusy := n.UsedPct.Or(0) >= 70
	allBusy := a.job.Runs.allBusySecs()
	switch {
	case float64(need) < worthwhile*float64(c.have):
		one.Verdict, one.Request = Less, request
		one.Text = fmt.Sprintf("%s, and with %d the run would take at most %.0f %% longer%s", used, need, max(math.Ceil(c.delay(need)*100), 1), onlyIf(p.runs() > 1, p.sample(show)))
		return min(left, need*uint64(c.tasks))
	case n.UsedPct.Or(0) >= 90 && waited >= 20:
		one.Text = fmt.Sprintf("%s, and tasks waited for a CPU %.0f %% of the time: more cores may make it faster", used, waited)
	case isBusy:
		one.Verdict, one.Text = WellSized, used
	case isOne:
		one.Verdict, one.Text = Least, fmt.Sprintf("1%s is the least; %s of it was used", onlyIf(len(a.job.Runs) > 1, " on each node"), Number(n.UsedPct, "%.1f %%"))
	case c.have > 1 && allBusy > 0:
		one.Verdict, one.Text = WellSized, fmt.Sprintf("%s, and all cores%s were busy at once for at least %s", used, onlyIf(len(a.job.Runs) > 1, " of a node"), Clock(rt.Some(allBusy)))
	case c.have == 1: // for each task
		one.Text = used + "; only --ntasks could be lower: whether the run then takes longer depends on the program"
	default:
		one.Text = used + "; how many were busy at once is not known, because a reading has the mean of an interval"
	}
	return left
}

// allBusySecs returns for how long all cores of a node were busy, on the node where that is longest.
func (l NodeRuns) allBusySecs() (top float64) {
	for _, s := range l {
		top = max(top, s.allBusySecs)
	}
	return top
}

// allBusySecs returns for how long all cores were busy at least. In an interval with the mean m of c cores, all were
// busy for at least m-(c-1) of the time. At other times at most c-1 were busy. In intervals that are short the
// readings of time and CPU time differ too much.
func allBusySecs(points []point, cores uint64) (secs float64) {
	const exact, shortestSecs = 0.99, 1 // the CPU time of an interval can be 1 % too high
	for _, p := range points {
		isLong := p.to-p.from >= shortestSecs
		mean, isRead := p.cores.Get()
		isUsable := isLong && isRead && cores > 0
		if isUsable {
			share := exact*mean - float64(cores-1)
			secs += (p.to - p.from) * min(max(share, 0), 1)
		}
	}
	return secs
}

// worstWait is the highest percentage of time in which a task of a node waited for a CPU.
func (l NodeRuns) worstWait() (top float64) {
	for _, s := range l {
		top = max(top, s.Pressure.CPUPct.Or(0))
	}
	return top
}
