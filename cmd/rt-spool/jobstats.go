package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/slurm/accounting"
	"github.com/resource-tracker/rt/spool"
)

// maxEnded limits what sacct prints of the jobs that have ended, in bytes.
const maxEnded = 256 << 20

func jobstatsCommand() *cli.Command {
	return &cli.Command{
		Name:  "jobstats",
		Usage: "write the summaries of ended jobs into Slurm's AdminComment, where jobstats and Job Defense Shield read them",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Value: "1d", Usage: "jobs that ended after `TIME`, in the words of rt-spool jobs"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print the summaries, and write nothing"},
		},
		Action: withConfig(runJobstats),
	}
}

// jobstatsCounts are the jobs without a comment, by what became of them.
type jobstatsCounts struct {
	written, absent, unknown int
	unread                   []error // of jobs whose records cannot be read
}

func runJobstats(c *cli.Context, cfg config.Config) error {
	if c.NArg() > 0 {
		return rtcli.Usage("jobstats takes no JOB: it writes all jobs that have ended and have no comment")
	}
	since, isTime := runs.ParseTime(c.String("since"), time.Now())
	if !isTime {
		return rtcli.Usage("--since %q: it is no time such as 1d, yesterday or 2026-03-01", c.String("since"))
	}
	sacct := cfg.Drain.Sacct
	if sacct == "auto" {
		sacct = accounting.FindSacct()
	}
	sacctmgr := accounting.FindSacctmgr()
	isReady := sacct != "" && sacct != "off" && sacctmgr != ""
	if !isReady {
		return errors.New("jobstats needs sacct and sacctmgr: run it where Slurm's commands are, with drain.sacct not off")
	}
	if err := accounting.CheckCase(c.Context, sacctmgr); err != nil {
		return fmt.Errorf("jobstats: %w", err)
	}
	list, err := accounting.EndedWithoutComment(c.Context, sacct, since, maxEnded)
	if err != nil {
		return fmt.Errorf("ask which jobs have ended: %w", err)
	}
	counts := jobstatsCounts{}
	for _, job := range list {
		if err := counts.writeJob(c, sacctmgr, job); err != nil {
			return fmt.Errorf("job %d: %w", job.JobID, err)
		}
	}
	say(c, "%d summaries written; %d jobs are not complete here yet, %d lack figures", counts.written, counts.absent, counts.unknown)
	return errors.Join(counts.unread...)
}

// writeJob writes the summary of a job. A job that is not here, or not on all of its nodes, can come later.
func (n *jobstatsCounts) writeJob(c *cli.Context, sacctmgr string, job accounting.Ended) error {
	sum, err := endedJob(c, job)
	isAbsent := errors.Is(err, spool.ErrNotFound) || errors.Is(err, fs.ErrNotExist)
	switch {
	case isAbsent:
		n.absent++
		return nil
	case err != nil:
		n.unread = append(n.unread, fmt.Errorf("job %d: %w", job.JobID, err))
		return nil
	case sum == nil:
		n.absent++
		return nil
	}
	text, err := encodeJobstats(sum)
	switch {
	case errors.Is(err, errUnknown):
		n.unknown++
		return nil
	case err != nil:
		return err
	case c.Bool("dry-run"):
		fmt.Fprintf(c.App.Writer, "%d %s\n", job.JobID, text)
		return nil
	}
	if err := accounting.SetAdminComment(c.Context, sacctmgr, job, text); err != nil {
		return err
	}
	n.written++
	return nil
}

// endedJob returns the summary of a job that has ended on all of its nodes; nil if it is not complete.
func endedJob(c *cli.Context, job accounting.Ended) (sum *report.JobSummary, err error) {
	found, err := findJob(c, strconv.FormatUint(job.JobID, 10))
	if err == nil {
		err = fetch(c, found)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = found.Close(err) }()
	summaries, _, err := readSummaries(c, found)
	if err != nil {
		return nil, err
	}
	for _, j := range report.Jobs(runs.WholeJobs(summaries)) {
		first := &j.Runs[0].Run
		isOfCluster := first.Cluster == job.Cluster || first.Cluster == ""
		isIt := first.JobID == rt.Some(job.JobID) && isOfCluster
		isComplete := j.Missing == 0 && j.State != rt.StateRunning
		if isIt && isComplete {
			return j, nil
		}
	}
	return nil, nil
}
