package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/slurm/accounting"
	"github.com/resource-tracker/rt/spool"
)

// queueTimeout limits the running time of squeue.
const queueTimeout = 5 * time.Second

// queueOf returns the jobs that squeue knows. It returns none if squeue is not there, is switched off, or fails: the
// machine need not belong to a cluster.
func queueOf(c *cli.Context, cfg config.Site, users, jobs []string) []accounting.Queued {
	program := cfg.Squeue
	if program == "auto" {
		program = accounting.FindSqueue()
	}
	if program == "" || program == "off" || c.IsSet("spool") { // --spool selects one directory and nothing else
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

// queuedError is the error of a job that was not found and that Slurm knows.
type queuedError struct {
	accounting.Queued
	missing error // wraps spool.ErrNotFound
}

// Error says that the job runs or waits.
func (e *queuedError) Error() string {
	if !e.IsRunning() {
		return fmt.Sprintf("job %s waits in the queue (%s) and has used nothing yet", e.Label, cmp.Or(e.Reason, strings.ToLower(e.State)))
	}
	since := ""
	if !e.Start.IsZero() {
		since = " since " + e.Start.Local().Format("2006-01-02 15:04:05")
	}
	return fmt.Sprintf("job %s is running on %s%s; its figures are not here yet: srun --jobid %d --overlap --pty rt-job watch shows them", e.Label, cmp.Or(e.NodeList, "a node"), since, e.JobID)
}

// Unwrap returns why the job was not found.
func (e *queuedError) Unwrap() error { return e.missing }

// askQueue returns the error of a job that was not found, or what squeue knows of it.
func askQueue(c *cli.Context, cfg config.Site, job string, missing error) error {
	id, _, _ := strings.Cut(job, ".")
	isID := id != "" && strings.Trim(id, "0123456789_+") == ""
	isNone := errors.Is(missing, spool.ErrNotFound) || errors.Is(missing, fs.ErrNotExist)
	if !isID || !isNone {
		return missing
	}
	queue := queueOf(c, cfg, nil, []string{id})
	if len(queue) == 0 {
		return missing
	}
	return &queuedError{queue[0], missing}
}

// withQueue completes the runs of a job that is running with what squeue knows, and adds the other running tasks of its
// array. A node may know only the own id of a task.
func withQueue(c *cli.Context, cfg config.Site, job string, list []*report.Summary) []*report.Summary {
	queue := queueOf(c, cfg, nil, queueNames([]string{job}))
	for i := range queue {
		q := &queue[i]
		isRead := slices.ContainsFunc(list, func(s *report.Summary) bool { return s.Run.JobID.Or(0) == q.JobID })
		if isRead || !q.IsRunning() {
			continue
		}
		list = append(list, readTask(c, strconv.FormatUint(q.JobID, 10))...)
	}
	all := runs.Collected{Summaries: list}
	all.JoinQueue(queue)
	return all.Summaries
}

// readTask returns the runs of a task by its own id; none if nothing of it can be read here.
func readTask(c *cli.Context, id string) []*report.Summary {
	found, err := findJob(c, id)
	if err != nil {
		return nil
	}
	err = fetch(c, found)
	if err != nil {
		return nil
	}
	list, _, err := readSummaries(c, found)
	if found.Close(err) != nil {
		return nil
	}
	return list
}
