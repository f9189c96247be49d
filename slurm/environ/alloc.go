package environ

import (
	"slices"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
)

// cpuRun is an element of SLURM_JOB_CPUS_PER_NODE: 4(x3) is 4 CPUs on each of 3 nodes.
type cpuRun struct{ cpus, nodes uint64 }

// parseCPUs parses SLURM_JOB_CPUS_PER_NODE, such as "2,4(x3)"; nil if it is malformed.
func parseCPUs(spec string) []cpuRun {
	var runs []cpuRun
	for term := range strings.SplitSeq(spec, ",") {
		number, repeat, isRepeated := strings.Cut(term, "(x")
		digits, isClosed := strings.CutSuffix(repeat, ")")
		if !isRepeated {
			digits, isClosed = "1", true
		}
		cpus, err1 := strconv.ParseUint(number, 10, 32)
		nodes, err2 := strconv.ParseUint(digits, 10, 32)
		if err1 != nil || err2 != nil || !isClosed || nodes == 0 {
			return nil
		}
		runs = append(runs, cpuRun{cpus, nodes})
	}
	return runs
}

// cpusOn returns the job's CPUs on one node of the list; spec is in the notation of
// SLURM_JOB_CPUS_PER_NODE. Without PrologFlags the list is that of a step and the CPUs are
// those of the job: then only a number that is the same on all nodes is used.
func cpusOn(spec, list, node string) rt.Opt[uint64] {
	runs := parseCPUs(spec)
	if len(runs) == 0 {
		return rt.None[uint64]()
	}
	same := !slices.ContainsFunc(runs, func(r cpuRun) bool { return r.cpus != runs[0].cpus })
	if same {
		return rt.Some(runs[0].cpus)
	}
	hosts, err := ExpandHosts(list)
	if err != nil {
		return rt.None[uint64]()
	}
	var total uint64
	for _, r := range runs {
		total += r.nodes
	}
	at := slices.Index(hosts, node)
	if at < 0 || total != uint64(len(hosts)) {
		return rt.None[uint64]()
	}
	return nth(runs, uint64(at))
}

// nth returns the CPUs of a node; the first node is 0.
func nth(runs []cpuRun, node uint64) rt.Opt[uint64] {
	for _, r := range runs {
		if node < r.nodes {
			return rt.Some(r.cpus)
		}
		node -= r.nodes
	}
	return rt.None[uint64]()
}

// StepTasksHere returns the number of tasks that a process's step has on its node:
// SLURM_STEP_TASKS_PER_NODE is in the notation of SLURM_JOB_CPUS_PER_NODE, and
// SLURM_NODEID is the number of the node in the step.
func StepTasksHere(env Env) rt.Opt[uint64] {
	node, ok := env.Number("SLURM_NODEID").Get()
	if !ok {
		return rt.None[uint64]()
	}
	return nth(parseCPUs(env.Text("SLURM_STEP_TASKS_PER_NODE")), node)
}
