package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/internal/errkind"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/site/client"
	"github.com/resource-tracker/rt/spool"
)

// jobProgram is the name under which this program shows jobs to their users.
const jobProgram = "rt-job"

const jobExitHelp = `EXIT STATUS:
   0   done
   1   an error, see the message
   2   wrong command line
   65  some files are damaged; everything else was done
   75  the site gave no answer; retry
   78  the configuration must be changed first
`

// newJobApp is rt-job, the program that a user types.
func newJobApp(stdout, stderr io.Writer) *cli.App {
	app := newApp(stdout, stderr)
	// -v is --verbose.
	cli.VersionFlag = &cli.BoolFlag{Name: "version", Usage: "print the version", DisableDefaultText: true}
	app.Name, app.HelpName = jobProgram, jobProgram
	app.Usage = "show what your jobs used, and what to request next time"
	app.UsageText = "rt-job [flags] [JOB...]\nrt-job VERB [flags] [JOB...]"
	app.ArgsUsage = "[JOB...]"
	app.Description = `Without JOB: the jobs of the last seven days, and what to change.
JOB is a job id (12), a task of an array (12_3), a range (12-20, 12_1-9),
an output file (slurm-12.out, out/12.log), or last. One job is shown in
eight lines, several in a table. -j 12,13 works as in sacct.`
	app.Flags = append(app.Flags,
		&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "jobs of the users `NAMES`, separated by commas, if you may see them (default: your own)"},
		&cli.BoolFlag{Name: "allusers", Aliases: []string{"a"}, Usage: "jobs of all users whose jobs you may see, as in sacct"},
		&cli.StringFlag{Name: "account", Aliases: []string{"A"}, Usage: "jobs of the accounts `NAMES`, of all users whose jobs you may see"},
		&cli.StringFlag{Name: "partition", Aliases: []string{"p"}, Usage: "jobs in the partitions `NAMES`"},
		&cli.StringFlag{Name: "state", Usage: "jobs in these `STATES`, such as running,oom,timeout, or Slurm's codes, such as R,F,TO"},
		&cli.StringFlag{Name: "name", Usage: "jobs with a name that matches the `PATTERN`, such as 'relax-*'"},
		&cli.StringFlag{Name: "since", Aliases: []string{"S"}, Usage: "jobs that ran after `TIME`, in the words of sacct: 1w, 12h, yesterday, month, lastmonth, now-2days, 2026-03-01 (default: 1w)"},
		&cli.StringFlag{Name: "until", Aliases: []string{"E"}, Usage: "jobs that ran before `TIME`"},
		&cli.StringFlag{Name: "by", Usage: "the sums of the jobs by `GROUP`: user, account, partition, name or week"},
		&cli.BoolFlag{Name: "all", Usage: "all jobs of the list, also if they are many"},
		jsonFlag,
		&cli.BoolFlag{Name: "csv", Usage: "print CSV with a header line"},
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "the whole report of one JOB"},
		&cli.BoolFlag{Name: "explain", Usage: "the whole report of one JOB, and how the advice was made"},
		&cli.StringFlag{Name: "html", Usage: "write a page with plots of one JOB to `FILE`, or to standard output (-)"},
		nodeFlag,
		&cli.BoolFlag{Name: "ascii", Usage: "draw with ASCII characters only, as is the default without a UTF-8 locale"},
		&cli.BoolFlag{Name: "wide", Aliases: []string{"w"}, Usage: "all columns, also on a narrow terminal"},
	)
	app.Commands = []*cli.Command{watchCommand(), compareCommand(), historyCommand(), webCommand(), shareCommand(), checkCommand()}
	app.CustomAppHelpTemplate = cli.AppHelpTemplate + "\n" + jobExitHelp
	app.Action = runJob
	explainUsageErrors(app.Commands)
	return app
}

func runJob(c *cli.Context) error {
	if c.Bool("json") && c.Bool("csv") {
		return rtcli.Usage("give --json or --csv, not both")
	}
	if by := c.String("by"); by != "" && !slices.Contains(runs.Groups, by) {
		return rtcli.Usage("--by %q: it is one of %s", by, strings.Join(runs.Groups, ", "))
	}
	switch c.Args().First() {
	case "help":
		return cli.ShowAppHelp(c)
	case "version":
		cli.ShowVersion(c)
		return nil
	}
	names, err := jobNames(c.Args().Slice())
	if err != nil {
		return err
	}
	isReport := c.Bool("verbose") || c.Bool("explain") || c.IsSet("html")
	switch {
	case len(names) == 0 && isReport:
		return rtcli.Usage("--verbose, --explain and --html show one job: give its id, or last")
	case len(names) == 0 && c.IsSet("node"):
		return rtcli.Usage("--node shows the part of one JOB on a node: give its id, or last")
	case len(names) == 0:
		return listJobs(c)
	case len(names) == 1 && !c.Bool("csv"):
		return showJob(c, names[0], isReport)
	case isReport:
		return rtcli.Usage("--verbose, --explain and --html show one job, and there are %d", len(names))
	}
	return listNamed(c, names)
}

// showJob shows one job in eight lines, or with isReport its report.
func showJob(c *cli.Context, name string, isReport bool) error {
	name, err := lastJob(c, name)
	if err != nil {
		return err
	}
	if isReport {
		found, err := findUserJob(c, name)
		if job := wholeJob(name); job != name && errors.Is(err, spool.ErrNotFound) {
			name = job
			found, err = findUserJob(c, name)
		}
		if err == nil {
			err = fetch(c, found)
		}
		if err != nil {
			return err
		}
		return found.Close(reportJob(c, name, found))
	}
	jobs, summaries, err := loadJob(c, name)
	if job := wholeJob(name); job != name && errors.Is(err, spool.ErrNotFound) { // the figures of the job have its steps
		name = job
		jobs, summaries, err = loadJob(c, name)
	}
	if jobs == nil {
		return err
	}
	o, cfgErr := userOptions(c)
	if cfgErr != nil {
		return errors.Join(err, cfgErr)
	}
	if c.Bool("json") {
		return errors.Join(err, rtcli.PrintJSON(c.App.Writer, runs.DetailsOf(jobs, o.Prices)))
	}
	if isArrayOf(summaries) && len(jobs) > 1 {
		return errors.Join(err, report.WriteArray(c.App.Writer, report.RollUp(name, summaries), "text", o))
	}
	for i, j := range jobs {
		if i > 0 {
			fmt.Fprintln(c.App.Writer)
		}
		err = errors.Join(err, report.WriteBrief(c.App.Writer, j, o))
	}
	return err
}

// loadJob reads a job with its advice. A job that Slurm says is running has no figures if nothing of it is here yet. jobs
// is nil if there is none, or if it has ended and nothing of it is here.
func loadJob(c *cli.Context, name string) (jobs []*report.JobSummary, summaries []*report.Summary, err error) {
	cfg, err := load(c)
	if err != nil {
		return nil, nil, err
	}
	found, err := findUserJob(c, name)
	if err == nil {
		err = fetch(c, found)
	}
	queued, isQueued := errors.AsType[*queuedError](err)
	if job := wholeJob(name); isQueued && job != name { // squeue knows no steps
		return loadJob(c, job)
	}
	hasBegun := isQueued && !queued.IsWaiting()
	switch {
	case hasBegun:
		found = &client.FoundJob{}
	case errors.Is(err, client.ErrNotArrived): // the figures so far are shown
	case err != nil:
		return nil, nil, err
	}
	missing := err // of a job that the queue knows
	defer func() { err = found.Close(err) }()
	summaries, damage, err := readSummaries(c, found)
	if err != nil {
		return nil, nil, err
	}
	summaries = append(summaries, found.LiveSummaries()...)
	if users := usersOf(c); c.IsSet("user") { // a job of another cluster or user can have the same id
		summaries = slices.DeleteFunc(summaries, func(s *report.Summary) bool { return !slices.Contains(users, s.Run.User) })
		if len(summaries) == 0 && !hasBegun {
			return nil, nil, errkind.With(spool.ErrNotFound, fmt.Errorf("no such job: %s of %s is not here", name, strings.Join(users, ", ")))
		}
	}
	if hasBegun || slices.ContainsFunc(summaries, mayBeInQueue) {
		summaries = withQueue(c, cfg.Site, name, summaries)
	}
	isShown := func(s *report.Summary) bool { return !s.OfQueue || s.Run.State == rt.StateRunning }
	if !slices.ContainsFunc(summaries, isShown) {
		return nil, nil, missing
	}
	if isJob := !strings.ContainsRune(name, '.'); isJob {
		summaries = runs.WholeJobs(summaries)
	}
	jobs = report.Jobs(summaries)
	return jobs, summaries, errors.Join(advise(c, jobs, found), damage, noAnswer(missing))
}

// mayBeInQueue reports whether squeue may know more of a run: it runs, or it ended a short time ago.
func mayBeInQueue(s *report.Summary) bool {
	isRunning := s.Run.State == rt.StateRunning
	isRecent := s.Run.OutcomeSource != "sacct" && time.Since(s.Run.End) < keptInQueue
	mayBeKnown := isRunning || isRecent
	return s.Run.JobID.Valid() && mayBeKnown
}

// findUserJob is findJob. The error of a job that is not there says what a user can do.
func findUserJob(c *cli.Context, name string) (*client.FoundJob, error) {
	found, err := findJob(c, name)
	if err == nil {
		return found, nil
	}
	_, isQueued := errors.AsType[*queuedError](err)
	isNone := errors.Is(err, spool.ErrNotFound) && !client.IsTemporary(err)
	cfg, cfgErr := load(c)
	switch {
	case isQueued || !isNone || cfgErr != nil:
		return found, err
	case runs.IsDenied(err):
		return nil, errkind.With(spool.ErrNotFound, fmt.Errorf("no such job: %s is not here, or it is of another user", name))
	case cfg.Site.URL == "" && !queueID.MatchString(name):
		return nil, errkind.With(spool.ErrNotFound, fmt.Errorf("no such job: %s is not on this machine", name))
	case cfg.Site.URL == "" || c.IsSet("spool"):
		return nil, errkind.With(spool.ErrNotFound, fmt.Errorf("no such job: %s is not on this machine; rt-job on its node may show it, and sacct -j %s -X -o NodeList names the node", name, name))
	}
	return nil, errkind.With(spool.ErrNotFound, fmt.Errorf("no such job: %s is not at %s; a job appears there some minutes after its end", name, cfg.Site.URL))
}

// userOptions are textOptions with the colors and prices of rt.toml.
func userOptions(c *cli.Context) (o report.TextOptions, err error) {
	cfg, err := load(c)
	o = textOptions(c)
	o.Prices = pricesOf(cfg.Waste)
	o.Colors = colorsOf(c, cfg.Waste)
	return o, err
}

// colorsOf returns the colors for a terminal; none if NO_COLOR is set (https://no-color.org).
func colorsOf(c *cli.Context, w config.Waste) report.Colors {
	isOn := rtcli.IsTerminal(c.App.Writer) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return report.Colors{On: isOn, Wasteful: w.Wasteful, Harmful: w.Harmful}
}

// self is the name of the user who calls.
func self() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}

// lastJob replaces the word last by the id of the newest job of the list.
func lastJob(c *cli.Context, name string) (string, error) {
	if name != "last" {
		return name, nil
	}
	lines, _, err := ownJobs(c, nil)
	if err != nil {
		return "", err
	}
	if len(lines) == 0 {
		return "", fmt.Errorf("%w: none began in the last seven days; --since 4w looks further back", spool.ErrNotFound)
	}
	newest := slices.MaxFunc(lines, func(a, b runs.Line) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(len(a.Job), len(b.Job)), cmp.Compare(a.Job, b.Job))
	})
	return newest.Job, nil
}

// isRunning reports whether a line is of a job that runs.
func isRunning(l *runs.Line) bool { return l.State == string(rt.StateRunning) }
