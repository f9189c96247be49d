package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/site/client"
	"github.com/resource-tracker/rt/slurm/accounting"
	"github.com/resource-tracker/rt/spool"
)

const (
	queueTimeout = 5 * time.Second // of squeue
	keptInQueue  = time.Hour       // after its end, a job is not looked for in the queue: Slurm's MinJobAge is 5 minutes by default
)

// queueOf returns what squeue knows of the jobs of the command line; without any, of the jobs of the users that it
// selects. A command asks squeue once.
func queueOf(c *cli.Context, cfg config.Site) []accounting.Queued {
	const asked = "squeue"
	if queue, isAsked := c.App.Metadata[asked].([]accounting.Queued); isAsked {
		return queue
	}
	queue := askSqueue(c, cfg)
	c.App.Metadata[asked] = queue
	return queue
}

// askSqueue calls squeue. It returns none if squeue is not there, is switched off, or fails: the machine need not belong
// to a cluster. It does not ask for the jobs of all users.
func askSqueue(c *cli.Context, cfg config.Site) []accounting.Queued {
	program := cfg.Squeue
	if program == "auto" {
		program = accounting.FindSqueue()
	}
	users, jobs := queueQuestion(c)
	isNothing := len(users) == 0 && len(jobs) == 0
	isOff := program == "" || program == "off" || c.IsSet("spool") // --spool selects one directory and nothing else
	if isNothing || isOff {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Context, queueTimeout)
	defer cancel()
	queue, err := accounting.Queue(ctx, program, users, jobs)
	if err != nil {
		return nil
	}
	return queue
}

// queueQuestion returns what a command asks squeue for: the ids of its jobs, or users. The newest job, which is called
// last, is one of the user's.
func queueQuestion(c *cli.Context) (users, jobs []string) {
	args := c.Args().Slice()
	if c.Command.Name == "history" { // its argument is no job
		args = nil
	}
	if replay := c.String("replay"); replay != "" {
		args = []string{replay}
	}
	names, err := jobNames(args)
	isOfUsers := len(names) == 0 || slices.Contains(names, "last")
	switch {
	case err != nil:
		return nil, nil
	case isOfUsers:
		users = usersOf(c)
		if len(users) == 0 { // it does not ask for the jobs of all users
			users = []string{self()}
		}
		return users, nil
	}
	jobs = queueIDs(names)
	if len(jobs) == 0 { // names of runs
		return nil, nil
	}
	return commaList(c.String("user")), jobs
}

// queueID is what squeue takes for a job.
var queueID = regexp.MustCompile(`^[0-9]+([_+][0-9]+)?$`)

// queueIDs returns the names of jobs that squeue takes, without steps.
func queueIDs(names []string) (ids []string) {
	for _, name := range names {
		id, _, _ := strings.Cut(name, ".")
		isID := queueID.MatchString(id) && !runs.IsFile(name)
		if isID {
			ids = append(ids, id)
		}
	}
	return ids
}

// queued returns what squeue knows of a job; of an array its tasks.
func queued(c *cli.Context, cfg config.Site, job string) []accounting.Queued {
	ids := queueIDs([]string{job})
	if len(ids) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(queueOf(c, cfg)), func(q accounting.Queued) bool { return !q.Matches(ids[0]) })
}

// queuedError is the error of a job that was not found and that Slurm knows: it waits, runs, or has ended.
type queuedError struct {
	accounting.Queued
	missing error // wraps spool.ErrNotFound
}

// Error says that the job waits, runs or has ended. Of a job of another user the figures may be here, and hidden.
func (e *queuedError) Error() string {
	name, figures := "job "+e.Label, "its figures are not here yet"
	mayBeHidden := e.User != self() && os.Geteuid() != 0
	if mayBeHidden {
		name, figures = name+" of "+e.User, "its figures are not here, or you may not see them"
	}
	unanswered := noAnswer(e.missing)
	if unanswered != nil {
		figures = "its figures are not here: " + unanswered.Error()
	}
	isUnclear := mayBeHidden || unanswered != nil
	switch {
	case e.HasEnded() && e.NodeList == "":
		return fmt.Sprintf("%s ended before it ran (%s), and has used nothing", name, strings.ToLower(e.State))
	case e.HasEnded() && isUnclear:
		return fmt.Sprintf("%s has ended (%s) on %s; %s", name, report.StateWords(e.Outcome()), e.NodeList, figures)
	case e.HasEnded():
		return fmt.Sprintf("%s has ended (%s) on %s; %s, they follow within minutes", name, report.StateWords(e.Outcome()), e.NodeList, figures)
	case e.IsWaiting():
		return fmt.Sprintf("%s waits in the queue (%s) and has used nothing yet", name, cmp.Or(e.Reason, strings.ToLower(e.State)))
	}
	since := ""
	if !e.Start.IsZero() {
		since = " since " + e.Start.Local().Format("2006-01-02 15:04:05")
	}
	running := fmt.Sprintf("%s is running on %s%s; %s", name, cmp.Or(e.NodeList, "a node"), since, figures)
	if isUnclear {
		return running
	}
	return fmt.Sprintf("%s: srun --jobid %d --overlap --pty rt-job watch shows them", running, e.JobID)
}

// noAnswer returns the part of an error that says that the site has not answered; nil if it has.
func noAnswer(err error) error {
	if !client.IsTemporary(err) {
		return nil
	}
	many, isMany := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	if !isMany {
		return err
	}
	parts := many.Unwrap()
	if at := slices.IndexFunc(parts, client.IsTemporary); at >= 0 {
		return parts[at]
	}
	return err
}

// Unwrap returns why the job was not found.
func (e *queuedError) Unwrap() error { return e.missing }

// askQueue returns the error of a job that was not found, with what squeue knows of it. Of an array it prefers a task that
// is running, then one that has ended.
func askQueue(c *cli.Context, cfg config.Site, job string, missing error) error {
	isNone := errors.Is(missing, spool.ErrNotFound) || errors.Is(missing, fs.ErrNotExist)
	if !isNone {
		return missing
	}
	queue := queued(c, cfg, job)
	if len(queue) == 0 {
		return missing
	}
	slices.SortStableFunc(queue, func(a, b accounting.Queued) int { return cmp.Compare(a.Phase(), b.Phase()) })
	return &queuedError{queue[0], missing}
}

// withQueue completes the runs of a job with what squeue knows, and adds the other tasks of its array.
func withQueue(c *cli.Context, cfg config.Site, job string, list []*report.Summary) []*report.Summary {
	queue := queued(c, cfg, job)
	all := runs.Collected{Summaries: append(list, unreadTasks(c, queue, list, job)...)}
	all.JoinQueue(queue)
	whole, _, _ := strings.Cut(job, ".")
	return slices.DeleteFunc(all.Summaries, func(s *report.Summary) bool {
		return !slices.Contains(list, s) && !spool.Matches(&s.Run, whole)
	})
}

// unreadTasks returns the runs of the tasks of the queue that are not in the list and whose ids are not in names. A node
// may know only the own id of a task.
func unreadTasks(c *cli.Context, queue []accounting.Queued, list []*report.Summary, names ...string) []*report.Summary {
	isUnread := func(q accounting.Queued) bool {
		isAsked := slices.Contains(names, strconv.FormatUint(q.JobID, 10))
		isRead := slices.ContainsFunc(list, func(s *report.Summary) bool { return s.Run.JobID == rt.Some(q.JobID) })
		return !isAsked && !isRead && !q.IsWaiting()
	}
	if !slices.ContainsFunc(queue, isUnread) {
		return nil
	}
	return readTasks(c, queue, list)
}

// readTasks returns the runs of the users of tasks from the lists of jobs here and at the site, without those in known.
// A node may not have known that they are tasks.
func readTasks(c *cli.Context, tasks []accounting.Queued, known []*report.Summary) []*report.Summary {
	since, _ := runs.ParseTime(defaultSince, time.Now())
	filter := runs.Filter{Since: since}
	for i := range tasks {
		filter.Users = append(filter.Users, tasks[i].User)
		if start := tasks[i].Start; !start.IsZero() && start.Before(filter.Since) {
			filter.Since = start
		}
	}
	filter.Users = slices.Compact(slices.Sorted(slices.Values(filter.Users)))
	jobs, err := collect(c, &filter)
	if err != nil {
		return nil
	}
	node := c.String("node")
	return slices.DeleteFunc(jobs.Summaries, func(s *report.Summary) bool {
		isKnown := slices.ContainsFunc(known, func(k *report.Summary) bool { return k.Run.IsSame(&s.Run) })
		isElsewhere := node != "" && s.Run.Node != node
		return isKnown || isElsewhere
	})
}
