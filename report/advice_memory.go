package report

import (
	"fmt"
	"math"

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
func (j *Job) memoryRequest(bytes, cores uint64) string {
	request := "--mem=" + memoryArg(bytes)
	if j.fewestCores() > 1 {
		request += fmt.Sprintf(" (or --mem-per-cpu=%s with %s)", memoryArg((bytes+cores-1)/cores), plural(int(cores), "CPU"))
	}
	return request
}

// fewestCores returns the number of CPUs of the node with the fewest CPUs; 0 if it is not known.
func (j *Job) fewestCores() uint64 {
	least := uint64(math.MaxUint64)
	for _, s := range j.Runs {
		if s.CPU.CoresOf != "allocation" {
			return 0
		}
		least = min(least, s.CPU.Cores.Or(0))
	}
	return least
}

// peak returns the highest peak of the nodes, because --mem limits each node. It is absent if the
// kernel's peak of a node is not known.
func (j *Job) peak() (top rt.Opt[float64]) {
	for _, s := range j.Runs {
		if s.Memory.PeakOf != "kernel" || !s.Memory.PeakBytes.Valid() {
			return rt.None[float64]()
		}
		raise(&top, scaled(s.Memory.PeakBytes, 1))
	}
	return top
}

// worst returns the summary of the node with the highest memory use in percent of the limit.
func (j *Job) worst() *Summary {
	worst := j.Runs[0]
	for _, s := range j.Runs {
		if s.Memory.PeakPct.Or(-1) > worst.Memory.PeakPct.Or(-1) {
			worst = s
		}
	}
	return worst
}

// memory advises on the memory of each node. cores is the number of CPUs per node after the advice
// about cores.
func (a *adviser) memory(cores uint64) {
	s := a.job.worst()
	m := &s.Memory
	limit, known := m.LimitBytes.Get()
	one := Advice{Resource: "memory", Verdict: NotKnown, Runs: 1}
	values := a.values((*Job).peak)
	hasLimit := known && m.LimitOf != "node"
	switch {
	case !a.job.peak().Valid():
		one.Text = "the kernel recorded no peak, and a reading can miss the highest use"
	case !hasLimit:
		one.Text = fmt.Sprintf("the peak was %s; the job had no limit of its own", size(m.PeakBytes))
	default:
		a.memoryFrom(&one, predict(values), s, limit, cores)
	}
	a.add(one)
}

func (a *adviser) memoryFrom(one *Advice, p prediction, s *Summary, limit, cores uint64) {
	m := &s.Memory
	highest := size(rt.Some(uint64(p.highest)))
	of := onlyIf(len(a.job.Runs) > 1, " on one node")
	one.Explain = append(p.explain("peak of a node", highest), "the peak includes file cache, so the job needs at most the peak; the limit is "+size(m.LimitBytes))
	killed := a.killedAt()
	if killed > 0 {
		one.Explain = append(one.Explain, fmt.Sprintf("an earlier run was killed for memory at its limit of %s: this is only a lower bound of what it needed, so there is no promise", size(rt.Some(killed))))
	}
	p.promise(one)
	if killed > 0 {
		one.RiskPct.Clear()
	}
	want := roundMemory(p.bound())
	isKilledAbove := killed >= want
	want, more := a.cover(want)
	if more != "" {
		one.RiskPct.Clear()
		one.Explain = append(one.Explain, more+"; the request is that peak plus the margin, without a promise")
		more = "; " + more
	}
	isLess := limit > minRAMSpace && float64(want) < worthwhile*float64(s.requested(limit))
	needs := m.AnonymousBytes.Or(0) + m.SharedBytes.Or(0)
	part := fmt.Sprintf("%.0f %%", p.highest/float64(limit)*100)
	switch {
	case p.rising:
		one.Text = fmt.Sprintf("the peak rises from run to run, up to %s: earlier runs do not bound the next one", highest)
	case isKilledAbove:
		one.Text = fmt.Sprintf("the peak was %s, but an earlier run was killed at %s", highest, size(rt.Some(killed)))
	case isLess:
		one.Verdict, one.Request = Less, a.job.memoryRequest(want, cores)
		one.Text = fmt.Sprintf("the peak was %s%s of %s (%s)%s", highest, of, size(m.LimitBytes), p.sample(), more)
	case needs >= limit/10*9:
		one.Verdict, one.Request = More, a.job.memoryRequest(want, cores)
		one.Text = fmt.Sprintf("the peak was %s%s of %s, nearly all (%s)%s", highest, of, size(m.LimitBytes), p.sample(), more)
	case m.PeakPct.Or(0) >= 90 && needs < limit/2:
		one.Text = fmt.Sprintf("file cache filled the limit of %s, and the kernel can free it; without file cache the readings are at most %s", size(m.LimitBytes), size(rt.Some(needs)))
	case a.highestPeak() > limit:
		one.Verdict, one.Request = More, a.job.memoryRequest(want, cores)
		one.Text = fmt.Sprintf("the peak was %s%s, %s of %s (%s)%s", highest, of, part, size(m.LimitBytes), p.sample(), more)
	default:
		one.Verdict = WellSized
		one.Text = fmt.Sprintf("the peak was %s%s, %s of %s%s", highest, of, part, size(m.LimitBytes), more)
		if cores > 0 && cores < a.job.fewestCores() {
			one.Text += fmt.Sprintf("; if you use --mem-per-cpu and %s, request %s per CPU", plural(int(cores), "CPU"), memoryArg((limit+cores-1)/cores))
		}
	}
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

// highestPeak returns the highest peak of a node in all runs, including those that did not finish
// or have an incomplete record.
func (a *adviser) highestPeak() (top uint64) {
	for _, r := range a.runs {
		for _, s := range r.Runs {
			top = max(top, s.Memory.PeakBytes.Or(0))
		}
	}
	return top
}

// cover returns want, or a higher request if a run had a higher peak: that peak plus the margin.
// Then why is the reason, otherwise it is empty.
func (a *adviser) cover(want uint64) (covers uint64, why string) {
	top := a.highestPeak()
	if top <= want {
		return want, ""
	}
	margin := marginOf(max(1, len(a.values((*Job).peak))))
	return roundMemory(float64(top) * (1 + margin)), fmt.Sprintf("a run outside the sample had a peak of %s", size(rt.Some(top)))
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
func (j *Job) killedOn() (s *Summary) {
	for _, r := range j.Runs {
		isHigher := s == nil || r.Memory.LimitBytes.Or(0) > s.Memory.LimitBytes.Or(0)
		if r.Memory.OOMKills.Or(0) > 0 && isHigher {
			s = r
		}
	}
	if s == nil && j.Outcome == rt.OutcomeOOM {
		s = j.worst() // accounting reports the kill
	}
	return s
}

// killed advises after an OOM kill: the memory that earlier runs needed, or else twice the highest
// limit at which a run was killed.
func (a *adviser) killed() {
	s := a.job.killedOn()
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
	why := fmt.Sprintf("processes were killed at the limit of %s%s", size(s.Memory.LimitBytes), s.killedText())
	if earlier := a.killedAt(); earlier > limit {
		limit = earlier
		why += fmt.Sprintf(", and in an earlier run at the limit of %s", size(rt.Some(limit)))
	}
	want := roundMemory(float64(limit) * 2)
	one.Text = why + "; how much the job needs is not known: this is twice the limit"
	one.Explain = []string{"a killed run shows only that it needs more than its limit; doubling the limit reaches any need in a few runs"}
	if values := a.values((*Job).peak); len(values) > 0 {
		p := predict(values)
		if earlier := roundMemory(p.bound()); earlier > limit {
			want = earlier
			one.Runs = p.n
			one.Text = why + fmt.Sprintf("; %s of the same job finished, with peaks of up to %s", plural(p.n, "run"), size(rt.Some(uint64(p.highest))))
			one.Explain = append(p.explain("peak of a node", size(rt.Some(uint64(p.highest)))), "this run was killed, so that there is no promise")
		}
	}
	if covers, more := a.cover(want); more != "" {
		want = covers
		one.Text = why + "; " + more
		one.Explain = append(one.Explain, more+"; the request is that peak plus the margin")
	}
	one.Request = a.job.memoryRequest(want, a.job.fewestCores())
	if node, ok := s.Node.MemoryBytes.Get(); ok && want > node {
		s.wholeNode(&one, why, limit)
	}
	a.add(one)
}

// wholeNode limits an advice after a kill to the memory of the node.
func (s *Summary) wholeNode(one *Advice, why string, limit uint64) {
	const nearly = 0.9 // slurmd keeps a part of the node's memory for the system
	all := size(s.Node.MemoryBytes)
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
	isExplained := len(k.Biggest) > 0 && 2*k.Biggest[0].RSSBytes.Or(0) >= k.BeforeBytes.Or(0) // else the reading of the processes is older
	if isExplained {
		largest = "largest process " + Plain(k.Biggest[0].Comm) + " with " + size(k.Biggest[0].RSSBytes) + onlyIf(k.BiggestAgeSecs.Valid(), " "+Clock(k.BiggestAgeSecs)+" earlier")
	}
	text := present(", ", largest, onlyIf(k.GrowthBytesPerSec.Or(0) > 0, "memory grew by "+bytes(k.GrowthBytesPerSec)+" a second"))
	return onlyIf(text != "", " ("+text+")")
}
