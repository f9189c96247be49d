package environ

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxHosts limits an expansion; the largest Slurm clusters have about 20,000 nodes.
const maxHosts = 1 << 17

// maxHostName limits one name, in bytes; DNS allows 253.
const maxHostName = 256

var errHostList = errors.New("not a host list such as n[1-3,5] or rack[1-2]node[01-16]")

// ExpandHosts returns the names of a host list in its order. A list has names such as
// n[1-2,5], separated by commas. A range can be padded with zeros. A name can have
// several brackets; the last one varies fastest.
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
