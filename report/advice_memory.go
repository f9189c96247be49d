package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/resource-tracker/rt"
)

// roundMemory rounds bytes up to a multiple of 16 MiB. From 256 MiB on, the unit is an eighth of
// the largest power of two that is not above bytes.
func roundMemory(bytes float64) uint64 {
	step := math.Max(16<<20, math.Exp2(math.Floor(math.Log2(math.Max(bytes, 1))))/8)
	return uint64(math.Ceil(bytes/step) * step)
}

// memoryArg formats bytes in the notation of sbatch: whole GiB, or else MiB.
func memoryArg(bytes uint64) string {
	if bytes >= 1<<30 && bytes%(1<<30) == 0 {
		return fmt.Sprintf("%dG", bytes>>30)
	}
	return fmt.Sprintf("%dM", (bytes+1<<20-1)>>20)
}

// memoryRequest returns the option of sbatch for a limit per node. If each node has several CPUs,
// it adds the limit per CPU for nodes with this number of cores.
func (j *JobSummary) memoryRequest(bytes, cores uint64) string {
	request := "--mem=" + memoryArg(bytes)
	if j.Runs.fewestCores() > 1 {
		request += fmt.Sprintf(" (or --mem-per-cpu=%s with %s)", memoryArg((bytes+cores-1)/cores), plural(int(cores), "CPU"))
	}
	return request
}

// fewestCores returns the number of CPUs of the node with the fewest CPUs; 0 if it is not known.
func (l NodeRuns) fewestCores() uint64 {
	least := uint64(math.MaxUint64)
	for _, s := range l {
		if s.CPU.CoresOf != "allocation" {
			return 0
		}
		least = min(least, s.CPU.Cores.Or(0))
	}
	return least
}

// peak returns the highest peak of the nodes, because --mem limits each node. It is absent if the
// kernel's peak of a node is not known.
func (l NodeRuns) peak() rt.Opt[float64] {
	for _, s := range l {
		if s.Memory.PeakOf != "kernel" || !s.Memory.PeakBytes.Valid() {
			return rt.None[float64]()
		}
	}
	return l.boundPeak()
}

// boundPeak is peak, also if it is only a lower bound.
func (l NodeRuns) boundPeak() (top rt.Opt[float64]) {
	for _, s := range l {
		raise(&top, rt.Scaled(s.Memory.PeakBytes, 1))
	}
	return top
}

// worst returns the summary of the node with the highest memory use in percent of the limit.
func (l NodeRuns) worst() *Summary {
	worst := l[0]
	for _, s := range l {
		if s.Memory.PeakPct.Or(-1) > worst.Memory.PeakPct.Or(-1) {
			worst = s
		}
	}
	return worst
}

// memory advises on the memory of each node. cores is the number of CPUs per node after the advice
// about cores.
func (a *adviser) memory(cores uint64) {
	s := a.job.Runs.worst()
	m := &s.Memory
	limit, known := m.LimitBytes.Get()
	one := Advice{Resource: "memory", Verdict: NotKnown, Runs: 1}
	hasLimit := known && m.LimitOf != "node"
	if a.killedRun != nil { // one request is for all tasks
		a.killed(cores)
		return
	}
	switch {
	case !a.job.Runs.peak().Valid():
		one.Text = "the kernel recorded no peak, and a reading can miss the highest use"
	case !hasLimit:
		one.Text = fmt.Sprintf("the peak was %s; the job had no limit of its own", Size(m.PeakBytes))
	default:
		a.memoryFrom(&one, a.predict(a.peaks(), minRAMSpace), s, limit, cores)
	}
	a.add(one)
}

// keepMemory adds the present limit to the advice for fewer cores if no other memory is advised. A request per CPU,
// which the site may make, would shrink with the cores.
func (a *adviser) keepMemory() {
	cores, memory := &a.job.Advice[0], &a.job.Advice[1]
	isLowered := cores.Request != "" && memory.Request == ""
	limit, isLimited := a.job.Runs.limitBytes().Get()
	if !isLowered || !isLimited {
		return
	}
	option, other, _ := strings.Cut(cores.Request, " ")
	cores.Request = strings.TrimSpace(option + " --mem=" + memoryArg(uint64(limit)) + " " + other)
	cores.Explain = append(cores.Explain, "--mem is the present limit: if the memory is requested for each CPU, fewer cores have less")
}

func (a *adviser) memoryFrom(one *Advice, p prediction, s *Summary, limit, cores uint64) {
	m := &s.Memory
	show := func(v float64) string { return Size(rt.Some(uint64(v))) }
	one.Explain = append(p.explain("peak of a node", show), "the peak includes file cache, so the job needs at most the peak; the limit is "+Size(m.LimitBytes))
	p.promise(one)
	killed := a.killedAt()
	if killed > 0 {
		one.RiskPct.Clear()
		one.Explain = append(one.Explain, fmt.Sprintf("an earlier run was killed for memory at its limit of %s: this is only a lower bound of what it needed, so there is no promise", Size(rt.Some(killed))))
	}
	if p.bound > p.highest {
		one.Explain = append(one.Explain, fmt.Sprintf("a run that did not finish had a peak of %s; the request is that peak plus the margin, without a promise", show(p.bound)))
	}
	want := roundMemory(p.request())
	isLess := limit > minRAMSpace && float64(want) < worthwhile*float64(s.requested(limit))
	needs := m.AnonymousBytes.Or(0) + m.SharedBytes.Or(0)
	peak := onlyIf(!a.isArray, "the peak was ") + onlyIf(a.isArray, "the highest peak was ") + show(p.own) + onlyIf(len(a.job.Runs) > 1, " on one node")
	peakOf := peak + " of " + Size(m.LimitBytes)
	isOutgrown := p.own >= worthwhile*float64(limit) && max(p.highest, p.bound) > float64(limit)
	switch {
	case p.rising:
		one.Text = peak + ", and it rises from run to run: earlier runs do not bound the next one"
	case killed >= want:
		one.Text = fmt.Sprintf("%s, but an earlier run was killed at %s", peak, Size(rt.Some(killed)))
	case isLess:
		one.Verdict, one.Request = Less, a.job.memoryRequest(want, cores)
		one.Text = peakOf + p.sample(show)
	case needs >= limit/10*9:
		one.Verdict, one.Request = More, a.job.memoryRequest(want, cores)
		one.Text = peakOf + ", nearly all" + p.sample(show)
	case m.PeakPct.Or(0) >= 90 && needs < limit/2:
		one.Text = fmt.Sprintf("file cache filled the limit of %s, and the kernel can free it; without file cache the readings are at most %s", Size(m.LimitBytes), Size(rt.Some(needs)))
	case isOutgrown:
		one.Verdict, one.Request = More, a.job.memoryRequest(want, cores)
		one.Text = peakOf + p.sample(show)
	default:
		one.Verdict = WellSized
		one.Text = fmt.Sprintf("%s, %.0f %% of %s%s", peak, p.own/float64(limit)*100, Size(m.LimitBytes), onlyIf(p.runs() > 1, p.sample(show)))
		if cores > 0 && cores < a.job.Runs.fewestCores() {
			one.Text += fmt.Sprintf("; if you use --mem-per-cpu and %s, request %s per CPU", plural(int(cores), "CPU"), memoryArg((limit+cores-1)/cores))
		}
	}
}

// peaks returns the peaks of the runs, the job's last.
func (a *adviser) peaks() (list []sampleValue) {
	for _, r := range a.runs {
		isBound := r.whyNone() != "" || !r.Runs.peak().Valid()
		if v, ok := r.Runs.boundPeak().Get(); ok && isBound {
			list = append(list, sampleValue{v, a.isOwn(r), true})
		}
	}
	return append(list, a.values(func(j *JobSummary) rt.Opt[float64] { return j.Runs.peak() })...)
}

// minRAMSpace is the default of MinRAMSpace in cgroup.conf(5): slurmd raises a lower limit to it, so
// that a smaller request has no effect.
const minRAMSpace = 30 << 20

// requested returns the allocated memory if it is below the limit, because the site has raised the
// limit with MinRAMSpace or AllowedRAMSpace.
func (s *Summary) requested(limit uint64) uint64 {
	if alloc := s.Run.AllocMem.Or(0); alloc > 0 { // 0 is --mem=0
		return min(alloc, limit)
	}
	return limit
}

// killedAt returns the highest limit at which a run was killed; 0 for none.
func (a *adviser) killedAt() (limit uint64) {
	for _, r := range a.runs {
		if s := r.killedOn(); s != nil {
			limit = max(limit, s.Memory.LimitBytes.Or(0))
		}
	}
	return limit
}

// killedOn returns the summary of the node with the highest limit at which processes were killed;
// nil if there is none.
func (j *JobSummary) killedOn() (s *Summary) {
	for _, r := range j.Runs {
		isHigher := s == nil || r.Memory.LimitBytes.Or(0) > s.Memory.LimitBytes.Or(0)
		if r.Memory.OOMKills.Or(0) > 0 && isHigher {
			s = r
		}
	}
	if s == nil && j.Outcome == rt.OutcomeOOM {
		s = j.Runs.worst() // accounting reports the kill
	}
	return s
}

// killedTask returns the run with the highest limit at which processes of a task were killed; nil if there is none.
func killedTask(tasks []*JobSummary) (top *Summary) {
	for _, j := range tasks {
		s := j.killedOn()
		isHigher := s != nil && (top == nil || s.Memory.LimitBytes.Or(0) > top.Memory.LimitBytes.Or(0))
		if isHigher {
			top = s
		}
	}
	return top
}

// killed advises after an OOM kill: twice the highest limit at which a run was killed. cores is the number of CPUs per
// node after the advice about cores.
func (a *adviser) killed(cores uint64) {
	s := a.killedRun
	if s == nil {
		return
	}
	one := Advice{Resource: "memory", Verdict: More, Runs: 1}
	limit, known := s.Memory.LimitBytes.Get()
	if !known {
		one.Text = "processes were killed for memory; the limit is not known"
		a.add(one)
		return
	}
	who := "processes were killed"
	if a.isArray {
		who = "a task (" + Plain(s.Label) + ") was killed"
	}
	why := fmt.Sprintf("%s at the limit of %s%s", who, Size(s.Memory.LimitBytes), s.killedText())
	if earlier := a.killedAt(); earlier > limit {
		limit = earlier
		why += fmt.Sprintf(", and in an earlier run at the limit of %s", Size(rt.Some(limit)))
	}
	want := roundMemory(float64(limit) * 2)
	one.Text = why + "; how much the job needs is not known: this is twice the limit"
	one.Explain = []string{"a killed run shows only that it needs more than its limit; doubling the limit reaches any need in a few runs"}
	one.Request = a.job.memoryRequest(want, cores)
	if node, ok := s.Node.MemoryBytes.Get(); ok && want > node {
		s.wholeNode(&one, why, limit)
	}
	a.add(one)
}

// wholeNode limits an advice after a kill to the memory of the node.
func (s *Summary) wholeNode(one *Advice, why string, limit uint64) {
	const nearly = 0.9 // slurmd keeps a part of the node's memory for the system
	all := Size(s.Node.MemoryBytes)
	if float64(limit) >= nearly*float64(s.Node.MemoryBytes.Or(0)) {
		one.Request = ""
		one.Text = why + fmt.Sprintf("; that is nearly all memory of the node (%s): use a node with more, or more nodes", all)
		return
	}
	one.Request = "--mem=0"
	one.Text = why + fmt.Sprintf("; how much the job needs is not known: --mem=0 requests all memory of the node, %s", all)
}

// killedText describes the first kill of the run, in parentheses.
func (s *Summary) killedText() string {
	if len(s.OOM) == 0 {
		return ""
	}
	k := &s.OOM[0]
	largest := ""
	// Else the processes were read before the memory grew.
	isExplained := len(k.Biggest) > 0 && 2*k.Biggest[0].RSSBytes.Or(0) >= max(k.BeforeBytes.Or(0), k.LimitBytes.Or(0))
	if isExplained {
		largest = "largest process " + Plain(k.Biggest[0].Comm) + " with " + Size(k.Biggest[0].RSSBytes) + onlyIf(k.BiggestAgeSecs.Valid(), " "+Clock(k.BiggestAgeSecs)+" earlier")
	}
	text := present(", ", largest, onlyIf(k.GrowthBytesPerSec.Or(0) > 0, "memory grew by "+bytes(k.GrowthBytesPerSec)+" a second"))
	return onlyIf(text != "", " ("+text+")")
}
