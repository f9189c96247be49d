package accounting

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// Queued is a job that squeue knows: it runs or waits.
type Queued struct {
	JobID     uint64
	Label     string // "12", "12_3", "12+1"; of waiting tasks of an array "12_[3-9]"
	Name      string
	User      string
	Account   string
	Partition string
	State     string // Slurm's: "RUNNING", "PENDING", ...
	Reason    string // why it waits
	NodeList  string
	Nodes     rt.Opt[uint64]
	Cores     rt.Opt[uint64]
	Start     time.Time // of a waiting job the expected one; zero if it is not known
	// RanSecs is without the time in which the job was suspended.
	RanSecs rt.Opt[float64]
	// LimitSecs is the time limit; absent without one.
	LimitSecs rt.Opt[float64]
}

// IsRunning reports whether the job has begun and has not ended.
func (q *Queued) IsRunning() bool {
	return q.State == "RUNNING" || q.State == "COMPLETING" || q.State == "SUSPENDED"
}

// queueFields are the fields of a line of squeue. The name is last, because it may have a bar.
const queueFields = "%A|%i|%u|%a|%P|%T|%r|%N|%D|%C|%S|%M|%l|%j"

// maxQueue limits the output of squeue.
const maxQueue = 64 << 20

// FindSqueue returns the path of squeue; empty where it is not installed.
func FindSqueue() string { return find("squeue") }

// Queue returns the jobs of users, or of all users for none, that run or wait. program is the path of squeue. jobs
// are ids; with some, only their jobs are returned. A job that Slurm does not know any more is no error.
func Queue(ctx context.Context, program string, users, jobs []string) ([]Queued, error) {
	args := []string{"--noheader", "--format=" + queueFields}
	if len(users) > 0 {
		args = append(args, "--user="+strings.Join(users, ","))
	}
	if len(jobs) > 0 {
		args = append(args, "--jobs="+strings.Join(jobs, ","))
	}
	output, err := Run(ctx, program, args, maxQueue)
	if err != nil && strings.Contains(err.Error(), "Invalid job id") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Queued
	for line := range strings.Lines(output) {
		if q, ok := parseQueued(strings.TrimSpace(line)); ok {
			list = append(list, q)
		}
	}
	return slices.Clip(list), nil
}

func parseQueued(line string) (q Queued, ok bool) {
	f := strings.SplitN(line, "|", strings.Count(queueFields, "|")+1)
	if len(f) != strings.Count(queueFields, "|")+1 {
		return q, false
	}
	id, err := strconv.ParseUint(f[0], 10, 64)
	if err != nil {
		return q, false
	}
	q = Queued{JobID: id, Label: f[1], User: f[2], Account: f[3], Partition: f[4], State: f[5], Reason: f[6], NodeList: f[7], Name: f[13]}
	for i, to := range []*rt.Opt[uint64]{&q.Nodes, &q.Cores} {
		if n, err := strconv.ParseUint(f[8+i], 10, 64); err == nil {
			to.Set(n)
		}
	}
	if secs, err := strconv.ParseInt(f[10], 10, 64); err == nil {
		q.Start = time.Unix(secs, 0).UTC()
	}
	q.RanSecs, q.LimitSecs = parseSecs(f[11]), parseSecs(f[12])
	return q, true
}

// parseSecs parses D-HH:MM:SS, HH:MM:SS or MM:SS. It returns none for another text, such as UNLIMITED.
func parseSecs(text string) (secs rt.Opt[float64]) {
	days, clock, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, clock = "0", text
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return rt.None[float64]()
	}
	sum := uint64(0)
	for part := range strings.SplitSeq(clock, ":") {
		v, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return rt.None[float64]()
		}
		sum = sum*60 + v
	}
	return rt.Some(float64(n*24*3600 + sum))
}
