package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/report/runs"
)

// maxRange is the largest number of jobs of a range.
const maxRange = 1000

var (
	slurmOutput = regexp.MustCompile(`^(?:.*/)?slurm-([0-9]+(?:_[0-9]+)?)\.out$`)
	otherOutput = regexp.MustCompile(`\.(out|err|log|txt)$`)
	idInName    = regexp.MustCompile(`[0-9]+(_[0-9]+)?`)
	jobRange    = regexp.MustCompile(`^([0-9]+_)?\[?([0-9]+)-([0-9]+)\]?$`)
	jobList     = regexp.MustCompile(`^[0-9][0-9_+.,-]*,[0-9_+.,-]*$`)
	jobID       = regexp.MustCompile(`^[0-9]+([_+][0-9]+)?(\.([0-9]+|batch|extern|interactive))?$`)
	runName     = regexp.MustCompile(`^(job|run)-[0-9].*-[0-9]+$`)
)

// jobNames replaces output files by their jobs, and lists and ranges by the jobs in them. A name that can be of no job
// is an error.
func jobNames(args []string) (names []string, err error) {
	for _, arg := range args {
		parts := []string{arg}
		if jobList.MatchString(arg) { // as in sacct -j
			parts = commaList(arg)
		}
		for _, part := range parts {
			more, err := jobsOfName(part)
			if err != nil {
				return nil, err
			}
			names = append(names, more...)
		}
	}
	return names, nil
}

// jobsOfName returns the jobs of one name.
func jobsOfName(arg string) ([]string, error) {
	isOutput := otherOutput.MatchString(arg) || strings.ContainsRune(arg, filepath.Separator)
	m, output := jobRange.FindStringSubmatch(arg), slurmOutput.FindStringSubmatch(arg)
	switch {
	case m != nil:
		return jobsOfRange(arg, m)
	case output != nil:
		return output[1:2], nil
	case isOutput && !strings.HasSuffix(arg, ".db"):
		return jobOfOutput(arg)
	case runs.IsFile(arg), arg == "last", jobID.MatchString(arg), runName.MatchString(arg):
		return []string{arg}, nil
	}
	return nil, noJobID(arg)
}

// jobOfOutput returns the job whose id is the one number in the name of an output file.
func jobOfOutput(path string) ([]string, error) {
	ids := idInName.FindAllString(filepath.Base(path), -1)
	switch len(ids) {
	case 0:
		return nil, rtcli.Usage("%q has no job id in its name: give the id of the job", path)
	case 1:
		return ids, nil
	}
	return nil, rtcli.Usage("%q has %d numbers in its name: give the id of the job", path, len(ids))
}

// noJobID is the error of a word that is no job id. It names what the word can mean.
func noJobID(arg string) error {
	array, isArray := strings.CutSuffix(arg, "_")
	_, err := strconv.ParseUint(array, 10, 64)
	if isArray && err == nil {
		return rtcli.Usage("%q is not a job id; %s shows the tasks of the array, and %s1 one of them", arg, array, arg)
	}
	verbs := []string{"watch", "compare", "history", "web", "share"}
	at := slices.IndexFunc(verbs, func(verb string) bool { return len(arg) > 1 && strings.HasPrefix(verb, arg) })
	if at >= 0 {
		return rtcli.Usage("%q is not a job id; do you mean rt-job %s?", arg, verbs[at])
	}
	return rtcli.Usage("%q is not a job id; --name %s lists jobs of that name", arg, arg)
}

// jobsOfRange returns the jobs of a range, which m has matched.
func jobsOfRange(arg string, m []string) (names []string, err error) {
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
	return names, nil
}

// wholeJob is the job of a step: 9 for 9.0 and 9.batch.
func wholeJob(name string) string {
	job, _, isStep := strings.Cut(name, ".")
	if isStep && jobID.MatchString(name) {
		return job
	}
	return name
}

// withoutDashJ replaces -j JOB and --jobs=JOB, as sacct has them, by JOB.
func withoutDashJ(args []string) (list []string) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		jobs, isLong := strings.CutPrefix(arg, "--jobs=")
		joined, isShort := strings.CutPrefix(arg, "-j")
		isJoined := isShort && strings.IndexAny(strings.TrimPrefix(joined, "="), "0123456789") == 0
		isFlag := arg == "-j" || arg == "--jobs"
		switch {
		case arg == "--":
			return append(list, args[i:]...)
		case isLong:
			list = append(list, jobs)
		case isJoined:
			list = append(list, strings.TrimPrefix(joined, "="))
		case isFlag && i+1 < len(args): // the next word is the job
		default:
			list = append(list, arg)
		}
	}
	return list
}
