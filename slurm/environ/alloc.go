package environ

import (
	"errors"
	"fmt"
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

// cpusOn returns the job's CPUs on a node of the list. Without PrologFlags the list is a step's,
// but the CPUs are the job's. Then cpusOn uses only a number that is the same everywhere.
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

// StepTasksHere returns the number of tasks of a process's step on its node.
// SLURM_STEP_TASKS_PER_NODE is in the notation of SLURM_JOB_CPUS_PER_NODE. SLURM_NODEID is the
// number of the node in the step.
func StepTasksHere(env Env) rt.Opt[uint64] {
	node, ok := env.Number("SLURM_NODEID").Get()
	if !ok {
		return rt.None[uint64]()
	}
	return nth(parseCPUs(env.Text("SLURM_STEP_TASKS_PER_NODE")), node)
}

// maxHosts limits an expansion; the largest Slurm clusters have about 20,000 nodes.
const maxHosts = 1 << 17

// maxHostName limits one name, in bytes; DNS allows 253.
const maxHostName = 256

var errHostList = errors.New("not a host list such as n[1-3,5] or rack[1-2]node[01-16]")

// ExpandHosts returns the names of a host list, such as n[1-2,05],m, in its order. A range can be
// padded with zeros. A name can have several brackets; the last one varies fastest.
func ExpandHosts(list string) ([]string, error) {
	var hosts []string
	for rest := list; rest != ""; {
		term, next, err := cutTerm(rest)
		if err == nil {
			hosts, err = appendTerm(hosts, "", term)
		}
		if err != nil {
			return nil, fmt.Errorf("%.200q is %w", list, err)
		}
		rest = next
	}
	return hosts, nil
}

// cutTerm splits a list at the first comma outside brackets.
func cutTerm(list string) (term, rest string, err error) {
	open := false
	end := len(list)
scan:
	for i := range len(list) {
		switch c := list[i]; {
		case c == '[' && !open:
			open = true
		case c == ']' && open:
			open = false
		case c == '[' || c == ']':
			return "", "", errHostList
		case c == ',' && !open:
			end = i
			break scan
		}
	}
	if open || end == 0 || end == len(list)-1 {
		return "", "", errHostList
	}
	return list[:end], strings.TrimPrefix(list[end:], ","), nil
}

// appendTerm appends every name of prefix + term, which can have brackets.
func appendTerm(hosts []string, prefix, term string) ([]string, error) {
	before, rest, found := strings.Cut(term, "[")
	if len(prefix)+len(before) > maxHostName {
		return nil, errHostList
	}
	if !found {
		if len(hosts) >= maxHosts {
			return nil, fmt.Errorf("longer than %d hosts", maxHosts)
		}
		return append(hosts, prefix+term), nil
	}
	ranges, after, _ := strings.Cut(rest, "]")
	for r := range strings.SplitSeq(ranges, ",") {
		first, last, isRange := strings.Cut(r, "-")
		if !isRange {
			last = first
		}
		lo, err1 := strconv.ParseUint(first, 10, 32)
		hi, err2 := strconv.ParseUint(last, 10, 32)
		if err1 != nil || err2 != nil || lo > hi || hi-lo >= maxHosts {
			return nil, errHostList
		}
		for n := lo; n <= hi; n++ {
			var err error
			hosts, err = appendTerm(hosts, fmt.Sprintf("%s%s%0*d", prefix, before, len(first), n), after)
			if err != nil {
				return nil, err
			}
		}
	}
	return hosts, nil
}
