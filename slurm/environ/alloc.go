package environ

import (
	"slices"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
)

// cpuRun is one element of SLURM_JOB_CPUS_PER_NODE: 4(x3) is four CPUs on each
// of three nodes.
type cpuRun struct{ cpus, nodes uint64 }

// parseCPUs reads SLURM_JOB_CPUS_PER_NODE, such as "2,4(x3)"; nil where it is malformed.
func parseCPUs(spec string) []cpuRun {
	var runs []cpuRun
	for term := range strings.SplitSeq(spec, ",") {
		number, repeat, repeated := strings.Cut(term, "(x")
		r := cpuRun{nodes: 1}
		var err error
		if r.cpus, err = strconv.ParseUint(number, 10, 32); err != nil {
			return nil
		}
		if repeated {
			digits, closed := strings.CutSuffix(repeat, ")")
			if r.nodes, err = strconv.ParseUint(digits, 10, 32); err != nil || !closed || r.nodes == 0 {
				return nil
			}
		}
		runs = append(runs, r)
	}
	return runs
}

// cpusOn returns the job's CPUs on one node of the list, in the notation of
// SLURM_JOB_CPUS_PER_NODE. Without PrologFlags the list is that of a step while
// the CPUs are the job's: then only a figure that is the same on all nodes holds.
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

// nth returns the number of one node, the first of which is 0.
func nth(runs []cpuRun, node uint64) rt.Opt[uint64] {
	for _, r := range runs {
		if node < r.nodes {
			return rt.Some(r.cpus)
		}
		node -= r.nodes
	}
	return rt.None[uint64]()
}

// StepTasksHere returns how many tasks the step of a process has on its node:
// SLURM_STEP_TASKS_PER_NODE is in the notation of SLURM_JOB_CPUS_PER_NODE, and
// SLURM_NODEID counts the step's nodes.
func StepTasksHere(env Env) rt.Opt[uint64] {
	node, ok := env.Number("SLURM_NODEID").Get()
	if !ok {
		return rt.None[uint64]()
	}
	return nth(parseCPUs(env.Text("SLURM_STEP_TASKS_PER_NODE")), node)
}
