package top

import (
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
)

// cpuSet is a list of CPUs in the kernel's format, "0-3,8"; empty is unknown.
type cpuSet string

// cpusOfJob returns the job's last cpuset in the ledger.
func cpusOfJob(events []rt.Event) (set cpuSet) {
	for i := range events {
		e := &events[i]
		if e.Kind != "job" || e.Name != "cpuset" {
			continue
		}
		for _, field := range strings.Fields(e.Detail) {
			if list, ok := strings.CutPrefix(field, "cpus="); ok {
				set = cpuSet(list)
			}
		}
	}
	return set
}

// has reports whether a CPU is in the list; absent if the list is unknown or malformed.
func (s cpuSet) has(cpu int) (in rt.Opt[bool]) {
	if s == "" {
		return in
	}
	found := false
	for part := range strings.SplitSeq(string(s), ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, err1 := strconv.ParseUint(from, 10, 31)
		b, err2 := strconv.ParseUint(to, 10, 31)
		if err1 != nil || err2 != nil || b < a {
			return rt.None[bool]()
		}
		found = found || uint64(cpu) >= a && uint64(cpu) <= b
	}
	return rt.Some(found)
}
