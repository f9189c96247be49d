package accounting

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// Queued is a job that squeue knows: it runs, waits, or has ended in the last minutes.
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
	End       time.Time // zero if it is not known; of a job that runs the latest one
	// RanSecs is without the time in which the job was suspended.
	RanSecs rt.Opt[float64]
	// LimitSecs is the time limit; absent without one.
	LimitSecs rt.Opt[float64]
}

// waiting are the states of jobs without nodes: PENDING, and what squeue calls it if the job ran before or is of a
// federation.
var waiting = []string{"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT", "REVOKED"}

// IsWaiting reports whether the job waits for nodes.
func (q *Queued) IsWaiting() bool { return slices.Contains(waiting, q.State) }

// IsRunning reports whether the job has nodes.
func (q *Queued) IsRunning() bool { return !q.IsWaiting() && !q.HasEnded() }

// HasEnded reports whether the job has ended. Slurm forgets it after MinJobAge, by default five minutes.
func (q *Queued) HasEnded() bool { return !q.IsWaiting() && q.Outcome() != rt.OutcomeNone }

// Phase orders jobs: those that run before those that have ended and those that wait.
func (q *Queued) Phase() int {
	switch {
	case q.IsRunning():
		return 0
	case q.HasEnded():
		return 1
	}
	return 2
}

// Outcome is what the state means; OutcomeNone while the job goes on.
func (q *Queued) Outcome() rt.Outcome { return outcomeOf(q.State) }

// Describes reports whether the job is the attempt of a run, see Account.Describes.
func (q *Queued) Describes(run *rt.Run) bool {
	a := Account{JobID: q.JobID, Start: q.Start, Texts: Texts{User: q.User}}
	if q.HasEnded() {
		a.End = q.End
	}
	return a.Describes(run) && a.isOfUser(run)
}

// ArrayID is the id of the array that the job is a task of.
func (q *Queued) ArrayID() (id rt.Opt[uint64]) {
	array, _, isTask := strings.Cut(q.Label, "_")
	if n, err := strconv.ParseUint(array, 10, 64); isTask && err == nil {
		id.Set(n)
	}
	return id
}

// Matches reports whether a JOB argument names the job, its task, or the array or heterogeneous job that it is a part of.
// Of tasks that wait, only the array is compared: squeue cuts their list.
func (q *Queued) Matches(job string) bool {
	whole, _, isPart := strings.Cut(strings.Replace(q.Label, "+", "_", 1), "_")
	array, task, _ := strings.Cut(job, "_")
	isWaitingTask := strings.HasPrefix(q.Label, array+"_[") && task != ""
	isWhole := isPart && job == whole
	return job == q.Label || job == strconv.FormatUint(q.JobID, 10) || isWhole || isWaitingTask
}

// queueFields are numbers, times and words of Slurm, and names that only administrators give.
const queueFields = "%A|%i|%u|%P|%T|%r|%N|%D|%C|%S|%e|%M|%l"

// queueFormat is the format of a record. A user can put line feeds and bars into the account and the name of a job, and
// squeue prints them as they are. So the mark, a random word as in ReadTexts, stands before the fields, the account and
// the name.
func queueFormat(mark string) string { return mark + queueFields + mark + "%a" + mark + "%j" }

// maxQueue limits the output of squeue.
const maxQueue = 64 << 20

// FindSqueue returns the path of squeue; empty where it is not installed.
func FindSqueue() string { return findProgram("squeue") }

// Queue returns the jobs of users, or of all users for none, that run, wait, or have ended in the last minutes. program is the path of squeue. jobs
// are ids; with some, only their jobs are returned. A job that Slurm does not know any more is no error.
func Queue(ctx context.Context, program string, users, jobs []string) ([]Queued, error) {
	args := []string{"--noheader", "--states=all"}
	if len(users) > 0 {
		args = append(args, "--user="+strings.Join(users, ","))
	}
	if len(jobs) > 0 {
		args = append(args, "--jobs="+strings.Join(jobs, ","))
	}
	mark := newMark()
	output, err := run(ctx, program, args, maxQueue, "SLURM_TIME_FORMAT=%s", "SQUEUE_FORMAT="+queueFormat(mark))
	if err != nil && strings.Contains(err.Error(), "Invalid job id") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseQueue(output, mark), nil
}

// parseQueue parses records of queueFormat. It leaves out those that it does not understand.
func parseQueue(output, mark string) (list []Queued) {
	parts := strings.Split(output, mark)[1:] // what is before the first mark is no record
	for record := range slices.Chunk(parts, 3) {
		if len(record) < 3 { // the output is cut
			continue
		}
		q, ok := parseQueued(record[0])
		if ok {
			q.Account, q.Name = record[1], strings.TrimSuffix(record[2], "\n")
			list = append(list, q)
		}
	}
	return list
}

// parseQueued parses queueFields.
func parseQueued(text string) (q Queued, ok bool) {
	f := strings.Split(text, "|")
	if len(f) != strings.Count(queueFields, "|")+1 {
		return q, false
	}
	id, err := strconv.ParseUint(f[0], 10, 64)
	if err != nil {
		return q, false
	}
	q = Queued{JobID: id, Label: f[1], User: f[2], Partition: f[3], State: f[4], Reason: f[5], NodeList: f[6]}
	for i, to := range []*rt.Opt[uint64]{&q.Nodes, &q.Cores} {
		if n, err := strconv.ParseUint(f[7+i], 10, 64); err == nil {
			to.Set(n)
		}
	}
	for i, to := range []*time.Time{&q.Start, &q.End} {
		if secs, err := strconv.ParseInt(f[9+i], 10, 64); err == nil {
			*to = time.Unix(secs, 0).UTC()
		}
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
