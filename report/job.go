package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/environ"
)

// JobSummary is one job, or one task of an array, over all of its nodes and steps. Its figures are from its last attempt.
type JobSummary struct {
	Label string `json:"job"` // as Summary.Label
	Names
	// The ending of the run with the most certain outcome, see decide. Outcome is empty while the
	// job runs.
	rt.Ending
	// SlurmState and SuspendedSecs are as in Summary.
	SlurmState    string          `json:"slurm_state,omitempty"`
	Start         time.Time       `json:"start"`
	LastReading   time.Time       `json:"last_reading,omitzero"`
	ElapsedSecs   rt.Opt[float64] `json:"elapsed_secs"` // on the node where it is longest; without SuspendedSecs
	SuspendedSecs rt.Opt[float64] `json:"suspended_secs,omitzero"`
	// LimitSecs is the time limit; absent if the node did not know it.
	LimitSecs rt.Opt[float64] `json:"time_limit_secs"`
	TimePct   rt.Opt[float64] `json:"time_pct"` // ElapsedSecs in percent of LimitSecs
	// Nodes has the sums over the nodes, and the figures of each node.
	Nodes *Nodes `json:"nodes"`
	// MissingNodes are the names of the job's nodes without a run here. Missing is their number,
	// which can be known without the names.
	MissingNodes []string  `json:"missing_nodes,omitempty"`
	Missing      uint64    `json:"missing"`
	GPUs         JobGPUs   `json:"gpus"`
	Balance      Balance   `json:"balance"` // over all attempts
	Steps        []JobStep `json:"steps,omitempty"`
	Earlier      []Attempt `json:"earlier_attempts,omitempty"`
	// Advice is what to request next time. AdviceReason is why the record permits no advice to
	// request less. Advise sets both.
	Advice       []Advice `json:"advice,omitempty"`
	AdviceReason string   `json:"advice_reason,omitempty"`
	// Runs are the summaries of the last attempt, one for each node, sorted by the node's name.
	Runs NodeRuns `json:"runs"`
}

// Names are the names of a job, and of where and for whom it ran.
type Names struct {
	Name      string `json:"name,omitempty"`
	Cluster   string `json:"cluster,omitempty"`
	User      string `json:"user,omitempty"`
	Account   string `json:"account,omitempty"`
	Partition string `json:"partition,omitempty"`
}

// NodeRuns are the runs of one attempt of a job, one for each node.
type NodeRuns []*Summary

// Here returns the number of runs that are here, which a run of the queue is not.
func (l NodeRuns) Here() (n int) {
	for _, s := range l {
		if !s.OfQueue {
			n++
		}
	}
	return n
}

// JobGPUs are the GPUs of a job on all of its nodes.
type JobGPUs struct {
	Count         int             `json:"count"`           // GPUs that were read
	Unread        bool            `json:"unread"`          // a node allocated more GPUs than were read
	Idle          int             `json:"idle"`            // never busy, and without a process
	BusyPct       rt.Opt[float64] `json:"busy_pct"`        // mean over the GPUs; absent if one was not read
	WorstVRAMPct  rt.Opt[float64] `json:"worst_vram_pct"`  // at least: of the highest reading
	VRAMPeakBytes rt.Opt[uint64]  `json:"vram_peak_bytes"` // on the GPU with the highest peak; at least
}

// JobStep is one step of a job on all of its nodes.
type JobStep struct {
	Step  string `json:"step"`
	Nodes int    `json:"nodes"`
	Tasks int    `json:"tasks"` // tasks with a cgroup of their own
	Used
	PeakMemory        // of PeakNode
	PeakNode   string `json:"peak_node,omitempty"`
	// The value of the largest task divided by the mean of the tasks on all nodes; absent for fewer
	// than two tasks.
	CPUImbalance    rt.Opt[float64] `json:"cpu_imbalance"`
	MemoryImbalance rt.Opt[float64] `json:"memory_imbalance"`
}

// Attempt is an earlier attempt of a job that was requeued.
type Attempt struct {
	Number      uint64          `json:"attempt"`
	Outcome     rt.Outcome      `json:"outcome"`
	SlurmState  string          `json:"slurm_state,omitempty"` // as in JobSummary
	Start       time.Time       `json:"start"`
	ElapsedSecs rt.Opt[float64] `json:"elapsed_secs"`
}

// Jobs combines summaries of runs, sorted from the oldest, into one for each job, each array task, and each
// step with its own run. A run outside a scheduler is a job of its own. Slurm uses ids again: runs with one id can be
// of several jobs.
func Jobs(list []*Summary) []*JobSummary {
	var jobs []*JobSummary
	at := map[string]int{}
	for _, j := range Attempts(list) {
		if len(j.Earlier) > 0 {
			j.Balance.Add(&jobs[at[j.key()]].Balance)
			jobs[at[j.key()]] = j
			continue
		}
		at[j.key()] = len(jobs)
		jobs = append(jobs, j)
	}
	return jobs
}

// Attempts is Jobs with one for each attempt.
func Attempts(list []*Summary) []*JobSummary {
	var jobs []*JobSummary
	last := map[string]*JobSummary{}
	keys, of := attempts(list)
	for _, key := range keys {
		j := jobOf(of[key])
		earlier := last[j.key()]
		isAttempt := earlier != nil && earlier.Runs[0].Run.IsOfJob(&j.Runs[0].Run)
		if isAttempt {
			before := slices.Clip(earlier.Earlier)
			j.Earlier = append(before, Attempt{earlier.Runs[0].Run.Attempt, earlier.Outcome, earlier.SlurmState, earlier.Start, earlier.ElapsedSecs})
		}
		last[j.key()] = j
		jobs = append(jobs, j)
	}
	for _, s := range list {
		if !s.Run.JobID.Valid() {
			jobs = append(jobs, jobOf([]*Summary{s}))
		}
	}
	return jobs
}

// key is the same for all attempts.
func (j *JobSummary) key() string { return j.Cluster + "/" + j.Label }

// jobOf combines the runs of one attempt.
func jobOf(runs []*Summary) *JobSummary {
	runs = slices.SortedStableFunc(slices.Values(runs), func(a, b *Summary) int { return cmp.Compare(a.Run.Node, b.Run.Node) })
	j := &JobSummary{Label: runs[0].Label, Runs: runs, Nodes: together(runs)}
	for _, s := range runs {
		r := &s.Run
		j.Names = Names{
			cmp.Or(j.Name, r.Meta.JobName), cmp.Or(j.Cluster, r.Cluster), cmp.Or(j.User, r.User), cmp.Or(j.Account, r.Account), cmp.Or(j.Partition, r.Partition),
		}
		j.times(s)
		balance := s.Balance()
		j.Balance.Add(&balance)
	}
	j.decide()
	if limit := j.LimitSecs.Or(0); limit > 0 && j.ElapsedSecs.Valid() {
		j.TimePct.Set(j.ElapsedSecs.Or(0) / limit * 100)
	}
	j.findMissing()
	j.gpus()
	j.steps()
	return j
}

func (j *JobSummary) times(s *Summary) {
	r := &s.Run
	start := r.Start
	if !r.JobStart.IsZero() {
		start = r.JobStart
	}
	if isEarlier := start.Before(j.Start); j.Start.IsZero() || isEarlier {
		j.Start = start
	}
	if r.End.After(j.End) {
		j.End = r.End
	}
	if s.Record.Last.After(j.LastReading) {
		j.LastReading = s.Record.Last
	}
	raise(&j.ElapsedSecs, s.ElapsedSecs)
	raise(&j.ElapsedSecs, s.RanSecs)
	raise(&j.SuspendedSecs, s.SuspendedSecs)
	if !r.JobEndLimit.IsZero() && r.JobEndLimit.After(start) {
		raise(&j.LimitSecs, rt.Some(r.JobEndLimit.Sub(start).Seconds()))
	}
}

// decide sets the ending. An outcome from accounting is for the whole job. Without one, the job has the most certain
// outcome of its nodes. The job is running while it runs on any node.
func (j *JobSummary) decide() {
	isBetter := func(a, b *rt.Ending) bool {
		fromSacct, other := a.OutcomeSource == "sacct", b.OutcomeSource == "sacct"
		if fromSacct != other {
			return fromSacct
		}
		return a.Outcome.Certainty() > b.Outcome.Certainty()
	}
	best, end := &j.Runs[0].Run.Ending, j.End
	for _, s := range j.Runs {
		if isBetter(&s.Run.Ending, best) {
			best = &s.Run.Ending
		}
	}
	j.Ending = *best
	j.End = end
	for _, s := range j.Runs {
		if isRunning := s.Run.State == rt.StateRunning; isRunning && !s.Abandoned {
			j.Ending = rt.Ending{State: rt.StateRunning, End: end}
		}
	}
	for _, s := range j.Runs {
		raise(&j.DerivedExit, s.Run.DerivedExit)
		if s.Run.Outcome == j.Outcome {
			j.SlurmState = cmp.Or(j.SlurmState, s.SlurmState)
		}
	}
}

// Abandoned reports whether the tracker of a node has died, and no drain has closed its run.
func (j *JobSummary) Abandoned() bool {
	return slices.ContainsFunc(j.Runs, func(s *Summary) bool { return s.Abandoned })
}

// isSoFar reports whether the job has ended, and a figure is older than its end.
func (j *JobSummary) isSoFar() bool {
	return slices.ContainsFunc(j.Runs, func(s *Summary) bool { return s.SoFar })
}

// Complete reports whether each node of the job has a run here with a complete record.
func (j *JobSummary) Complete() bool { return j.Missing == 0 && j.Nodes.Complete }

func (j *JobSummary) findMissing() {
	isStep := j.Runs[0].Run.Step != "" // the nodes of a step are not recorded
	want, known := j.Nodes.Expected.Get()
	have := uint64(j.Runs.Here())
	if isStep || !known || want <= have {
		return
	}
	j.Missing = want - have
	names, err := environ.ExpandHosts(j.Runs[0].Run.NodeList)
	if err != nil {
		return // the number is known
	}
	j.MissingNodes = slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(j.Runs, func(s *Summary) bool { return s.Run.Node == name && !s.OfQueue })
	})
	if uint64(len(j.MissingNodes)) != j.Missing {
		j.MissingNodes = nil // the list does not match the runs
	}
}

// missingText returns the nodes without a run here, "1 of 2 nodes: n2 has not delivered". It is empty if all nodes or
// none have one.
func (j *JobSummary) missingText() string {
	isOfQueue := j.Runs.Here() == 0
	if j.Missing == 0 || isOfQueue {
		return ""
	}
	who := "the others have"
	if n := len(j.MissingNodes); n > 0 {
		who = Plain(FirstOf(j.MissingNodes, 4)) + onlyIf(n == 1, " has") + onlyIf(n > 1, " have")
	}
	return fmt.Sprintf("%d of %d nodes: %s not delivered", len(j.Runs), uint64(len(j.Runs))+j.Missing, who)
}

func (j *JobSummary) gpus() {
	g, busy, isBusyRead := &j.GPUs, mean{}, true
	for _, s := range j.Runs {
		g.Unread = g.Unread || rt.CountGPUs(s.Run.GPUs) > uint64(len(s.GPUs))
		for i := range s.GPUs {
			one := &s.GPUs[i]
			g.Count++
			if one.isIdle() {
				g.Idle++
			}
			isBusyRead = isBusyRead && one.Busy().Valid()
			busy.add(one.Busy(), 1)
			peak, _ := one.VRAMPeak()
			raise(&g.VRAMPeakBytes, peak)
			raise(&g.WorstVRAMPct, one.vramPct())
		}
	}
	if isBusyRead && !g.Unread {
		g.BusyPct = busy.value()
	}
}

// isIdle reports whether the driver reported neither work nor a process on the GPU.
func (g *GPU) isIdle() bool { return g.MaxBusyPct == rt.Some(0.0) && g.Processes == 0 }

func (j *JobSummary) steps() {
	var order []string
	of := map[string][]*Step{}
	for _, s := range j.Runs {
		for i := range s.Steps {
			st := &s.Steps[i]
			if of[st.Step] == nil {
				order = append(order, st.Step)
			}
			of[st.Step] = append(of[st.Step], st)
		}
	}
	slices.SortFunc(order, compareSteps)
	for _, name := range order {
		one := JobStep{Step: name, Nodes: len(of[name])}
		one.Used = addUsed(of[name], func(st *Step) Used { return st.Used })
		var tasks []Task
		for _, st := range of[name] {
			one.raisePeak(st.PeakMemory)
			tasks = append(tasks, st.Tasks...)
		}
		for _, s := range j.Runs {
			isHighest := func(st Step) bool { return st.Step == name && one.PeakBytes.Valid() && st.PeakBytes == one.PeakBytes }
			if one.PeakNode == "" && slices.ContainsFunc(s.Steps, isHighest) {
				one.PeakNode = s.Run.Node
			}
		}
		one.Tasks = len(tasks)
		one.CPUImbalance = imbalance(tasks, func(f *Figures) rt.Opt[float64] { return f.UsedSecs })
		one.MemoryImbalance = imbalance(tasks, func(f *Figures) rt.Opt[float64] { return rt.Scaled(f.PeakBytes, 1) })
		j.Steps = append(j.Steps, one)
	}
}
