package site

import (
	"time"

	"github.com/resource-tracker/rt/report"
)

// Group is by what figures of jobs are summed.
type Group string

// The groups of jobs.
const (
	ByUser      Group = "user"
	ByAccount   Group = "account"
	ByPartition Group = "partition"
	ByWeek      Group = "week" // from Monday on, in UTC, of the start of the job
	ByDay       Group = "day"  // in UTC, of the start of the job

	ByWeekAndPartition Group = "week and partition"
)

// Total is the sum over a group of jobs.
type Total struct {
	Name  string    // of the user, account or partition
	Begin time.Time // of the week or day
	Jobs  int64
	report.Sum
	Known int64 // jobs whose waste is known
}

// AddTotal adds the jobs and the figures of another group.
func (t *Total) AddTotal(other *Total) {
	t.Jobs += other.Jobs
	t.Known += other.Known
	t.AddSum(&other.Sum)
}
