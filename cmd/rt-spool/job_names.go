package main

import (
	"fmt"
	"regexp"
	"strconv"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
)

// maxRange is the largest number of jobs of a range.
const maxRange = 1000

var (
	outputFile = regexp.MustCompile(`^(?:.*/)?slurm-([0-9]+(?:_[0-9]+)?)\.out$`)
	jobRange   = regexp.MustCompile(`^([0-9]+_)?\[?([0-9]+)-([0-9]+)\]?$`)
)

// jobNames replaces output files by their jobs, and ranges by the jobs in them.
func jobNames(args []string) (names []string, err error) {
	for _, arg := range args {
		if m := outputFile.FindStringSubmatch(arg); m != nil {
			names = append(names, m[1])
			continue
		}
		m := jobRange.FindStringSubmatch(arg)
		if m == nil {
			names = append(names, arg)
			continue
		}
		first, err1 := strconv.ParseUint(m[2], 10, 64)
		last, err2 := strconv.ParseUint(m[3], 10, 64)
		switch {
		case err1 != nil || err2 != nil || first > last:
			return nil, rtcli.Usage("%q is no range of jobs: give the lower id first, such as 12-20", arg)
		case last-first >= maxRange:
			return nil, rtcli.Usage("%q has more than %d jobs: --since and --until list the jobs of a time", arg, maxRange)
		}
		for i := range last - first + 1 {
			names = append(names, fmt.Sprintf("%s%d", m[1], first+i))
		}
	}
	return names, nil
}
