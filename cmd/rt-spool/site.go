package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/site/client"
	"github.com/resource-tracker/rt/spool"
)

// siteOf returns the client of the configured site; nil if none is to be asked. --spool selects one
// directory and nothing else.
func siteOf(c *cli.Context, cfg config.Site) (*client.Client, error) {
	if cfg.URL == "" || c.IsSet("spool") {
		return nil, nil
	}
	site, err := client.New(client.Config{URL: cfg.URL, TokenFile: cfg.TokenFile, Munged: cfg.MungeSocket, CAFile: cfg.CAFile, Timeout: cfg.Timeout.Duration})
	if err != nil {
		return nil, misconfigured(err)
	}
	if isRisk := site.ClearText() && !cfg.AllowHTTP; isRisk {
		warn(c, fmt.Errorf("the read token crosses the network to %s in clear text: use https, or set site.allow_http where the network is safe", cfg.URL))
	}
	return site, nil
}

func warn(c *cli.Context, err error) { say(c, "warning: %v", err) }

// say prints a message of the program, which can have the name rt-job.
func say(c *cli.Context, format string, args ...any) {
	name, _, _ := strings.Cut(c.App.Name, " ") // a verb with verbs of its own follows
	rtcli.Message(c.App.ErrWriter, name, format, args...)
}

// warnDenied names a local spool that this user may not read, and that the site replaces.
func warnDenied(c *cli.Context, err error) {
	warn(c, fmt.Errorf("%w: the runs are those of the site only", err))
}

// findJob finds the runs of a JOB in the local spool and at the site, on the node of --node.
func findJob(c *cli.Context, job string) (*client.FoundJob, error) {
	cfg, err := load(c)
	if err != nil {
		return nil, err
	}
	site, err := siteOf(c, cfg.Site)
	if err != nil {
		return nil, err
	}
	local, localErr := runsFor(c, job)
	if site == nil || runs.IsFile(job) {
		return &client.FoundJob{Entries: local}, askQueue(c, cfg.Site, job, localErr)
	}
	found, err := site.Look(c.Context, client.Wanted{Job: job, Node: c.String("node"), Dir: cfg.Spool.Dir, Local: local, LocalErr: localErr})
	if isDirectory := runs.IsDenied(localErr) && !errors.Is(localErr, spool.ErrNotFound); err == nil && isDirectory {
		warnDenied(c, localErr)
	}
	return found, askQueue(c, cfg.Site, job, err)
}

// fetch makes files of the runs of the site.
func fetch(c *cli.Context, found *client.FoundJob) error {
	if found.Site == nil {
		return nil
	}
	signal.Ignore(syscall.SIGPIPE) // the files are also removed if the reader of the output ends
	return found.Fetch(c.Context, func(err error) { say(c, "%v", err) })
}

// jobOf returns the one JOB of the command line with its runs. The caller calls Close of the result.
func jobOf(c *cli.Context) (*client.FoundJob, error) {
	if c.NArg() != 1 {
		return nil, rtcli.Usage("%s takes one JOB; rt-spool ls shows what there is", c.Command.Name)
	}
	return findJob(c, c.Args().First())
}

// onlyRun returns the one JOB of the command line, and an error if it has several runs.
func onlyRun(c *cli.Context) (*client.FoundJob, error) {
	found, err := jobOf(c)
	if err != nil {
		return nil, err
	}
	names, by := runs.Paths(found.Entries), "file"
	if found.Site != nil {
		names, by = found.Names(), "name"
	}
	if len(names) > 1 {
		return nil, rtcli.Usage("job %s has %d runs; select one of them by --node or by its %s:\n  %s",
			c.Args().First(), len(names), by, strings.Join(names, "\n  "))
	}
	return found, fetch(c, found)
}

// localDirs returns the spool directories. With a site those that exist and that this user may read;
// denied has the errors of others.
func localDirs(c *cli.Context, cfg config.Config, site *client.Client) (dirs []string, denied []error, err error) {
	dirs = spoolDirs(c, cfg.Spool)
	if site == nil {
		return dirs, nil, runs.CheckExists(dirs[0])
	}
	dirs = slices.DeleteFunc(dirs, func(dir string) bool {
		_, err := os.ReadDir(dir)
		if runs.IsDenied(err) {
			denied = append(denied, fmt.Errorf("list the spool: %w", err))
		}
		return runs.IsDenied(err) || errors.Is(err, fs.ErrNotExist)
	})
	return dirs, denied, nil
}

// joinSite adds the runs of the site to a list, and the names that the users have there to the filter.
func joinSite(c *cli.Context, site *client.Client, runs *runs.Collected, f *runs.Filter) error {
	if site == nil {
		return nil
	}
	q := client.Query{Users: f.Users, Accounts: f.Accounts, Partitions: f.Partitions, Name: f.NamePart(), Since: f.Since, Until: f.Until}
	queries := []client.Query{q}
	if len(f.Jobs) > 0 {
		queries = nil
	}
	for _, job := range f.Jobs { // the tasks of an array have one number
		q.JobID = spool.JobNumber(job)
		isAsked := slices.ContainsFunc(queries, func(other client.Query) bool { return other.JobID == q.JobID })
		if q.JobID.Valid() && !isAsked {
			queries = append(queries, q)
		}
	}
	for _, q := range queries {
		copies, err := site.Figures(c.Context, q)
		if err != nil {
			return err
		}
		runs.Join(copies)
		f.Users = client.Users(q, copies)
	}
	return nil
}
