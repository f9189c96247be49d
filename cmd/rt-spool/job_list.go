package main

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/slurm/accounting"
	"github.com/resource-tracker/rt/spool"
)

const (
	defaultSince = "1w"
	shownJobs    = 30 // on a terminal, without --all
	shownChanges = 3
	triedChanges = 10   // of these, the others have no advice
	leastWaste   = 0.01 // core-hours, from which on a job is one that could save something
)

// listJobs lists the jobs of the user: those that run first, then the newest. Below it says what the most wasteful
// ones could change.
func listJobs(c *cli.Context) error {
	lines, jobs, err := ownJobs(c, nil)
	if err != nil {
		return err
	}
	if c.IsSet("by") {
		err := printSums(c, lines, jobs.prices)
		notePartial(c, jobs)
		return errors.Join(err, jobs.problems(c))
	}
	slices.SortStableFunc(lines, func(a, b runs.Line) int {
		switch {
		case isRunning(&a) == isRunning(&b):
			return cmp.Or(b.Start.Compare(a.Start), cmp.Compare(len(a.Job), len(b.Job)), cmp.Compare(a.Job, b.Job))
		case isRunning(&a):
			return -1
		}
		return 1
	})
	if c.Bool("json") || c.Bool("csv") {
		return errors.Join(printJobLines(c, lines), jobs.problems(c))
	}
	if len(lines) == 0 {
		fmt.Fprintln(c.App.Writer, jobs.noneText(c))
		notePartial(c, jobs)
		printWaiting(c, jobs.waiting)
		return jobs.problems(c)
	}
	shown := lines
	isLong := rtcli.IsTerminal(c.App.Writer) && !c.Bool("all") && len(lines) > shownJobs
	if isLong {
		shown = lines[:shownJobs]
	}
	if err := printUserLines(c, shown, jobs); err != nil {
		return err
	}
	if isLong {
		fmt.Fprintf(c.App.Writer, "and %d older ones (--all)\n", len(lines)-shownJobs)
	}
	printWaiting(c, jobs.waiting)
	sum := runs.SumOf(lines, jobs.prices)
	sum.Print(c.App.Writer, &jobs.prices)
	if jobs.isLocal(c) {
		fmt.Fprintln(c.App.Writer, "These are the jobs of this machine: no service of the site is configured.")
	}
	notePartial(c, jobs)
	return errors.Join(printChanges(c, lines), jobs.problems(c))
}

// listNamed lists the jobs that were named.
func listNamed(c *cli.Context, names []string) error {
	for i := range names {
		name, err := lastJob(c, wholeJob(names[i]))
		if err != nil {
			return err
		}
		names[i] = name
	}
	lines, jobs, err := ownJobs(c, names)
	if err != nil {
		return err
	}
	isForProgram := c.Bool("json") || c.Bool("csv")
	switch {
	case isForProgram:
		err = printJobLines(c, lines)
	case len(lines) > 0:
		err = printUserLines(c, lines, jobs)
	}
	if err != nil {
		return err
	}
	if !isForProgram {
		printWaiting(c, jobs.waiting)
	}
	return errors.Join(missingOf(c, jobs), jobs.problems(c))
}

// missingOf returns an error with the arguments that name none of the jobs, running or waiting. A range may have gaps.
func missingOf(c *cli.Context, jobs *collected) error {
	var missing []string
	for _, arg := range c.Args().Slice() {
		names, err := jobNames([]string{arg})
		if err != nil {
			return err
		}
		for i := range names {
			names[i] = wholeJob(names[i])
		}
		isThere := slices.ContainsFunc(jobs.Summaries, func(s *report.Summary) bool {
			return slices.ContainsFunc(names, func(name string) bool { return spool.Matches(&s.Run, name) })
		})
		isWaiting := slices.ContainsFunc(jobs.waiting, func(q accounting.Queued) bool { return slices.ContainsFunc(names, q.Matches) })
		isKnown := arg == "last" || isThere || isWaiting
		if !isKnown {
			missing = append(missing, arg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", spool.ErrNotFound, strings.Join(missing, ", "))
}

// ownJobs returns the jobs that the flags select, by default of the user, and those that Slurm says
// are running. With names it returns the jobs with these names.
func ownJobs(c *cli.Context, names []string) ([]runs.Line, *collected, error) {
	now := time.Now()
	selected := jobFilterOf
	if len(names) == 0 {
		selected = userFilter
	}
	filter, err := selected(c, now)
	if err != nil {
		return nil, nil, err
	}
	filter.Jobs = names
	if len(names) == 0 && filter.Since.IsZero() {
		before := now
		if !filter.Until.IsZero() {
			before = filter.Until
		}
		filter.Since, _ = runs.ParseTime(defaultSince, before)
	}
	jobs, err := collectOwn(c, &filter)
	if err != nil {
		return nil, nil, err
	}
	queue := queueOf(c, jobs.cfg.Site)
	if len(names) > 0 {
		jobs.Summaries = append(jobs.Summaries, unreadTasks(c, queue, jobs.Summaries, names...)...)
	}
	jobs.JoinQueue(queue)
	jobs.filter = filter
	jobs.waiting = slices.DeleteFunc(slices.Clone(queue), func(q accounting.Queued) bool { return !filter.HasWaiting(&q) })
	return jobs.Lines(filter, false, jobs.prices), jobs, nil
}

// userFilter is the filter of the flags, of the user who calls if they name no others.
func userFilter(c *cli.Context, now time.Time) (runs.Filter, error) {
	filter, err := jobFilterOf(c, now)
	filter.Users = usersOf(c)
	return filter, err
}

// usersOf returns the users that the flags select, none for all of them.
func usersOf(c *cli.Context) []string {
	isOwn := !c.IsSet("user") && !c.IsSet("account") && !c.Bool("allusers")
	if isOwn {
		return []string{self()}
	}
	return commaList(c.String("user"))
}

// namedJobs returns all jobs of the user with names that match a pattern.
func namedJobs(c *cli.Context, pattern string) ([]runs.Line, *collected, error) {
	filter, err := userFilter(c, time.Now())
	if err != nil {
		return nil, nil, err
	}
	filter.Name = pattern
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, nil, rtcli.Usage("%q: the brackets of the pattern do not match", pattern)
	}
	jobs, err := collectOwn(c, &filter)
	if err != nil {
		return nil, nil, err
	}
	jobs.JoinQueue(queueOf(c, jobs.cfg.Site))
	return jobs.Lines(filter, false, jobs.prices), jobs, nil
}

// collectOwn is collect with an error in a user's words.
func collectOwn(c *cli.Context, filter *runs.Filter) (*collected, error) {
	jobs, err := collect(c, filter)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no jobs are recorded on this machine, and no service of the site is configured (site.url in rt.toml): run rt-job on a node of the job (%w)", err)
	}
	return jobs, err
}

func printUserLines(c *cli.Context, lines []runs.Line, jobs *collected) error {
	width := rtcli.TerminalWidth(c.App.Writer)
	if c.Bool("wide") {
		width = 0
	}
	return runs.PrintUserJobs(c.App.Writer, lines, width, colorsOf(c, jobs.cfg.Waste))
}

// printSums prints the sums of --by.
func printSums(c *cli.Context, lines []runs.Line, prices report.Prices) error {
	sums := runs.SumsBy(lines, c.String("by"), prices)
	switch {
	case c.Bool("json"):
		return rtcli.PrintJSON(c.App.Writer, sums)
	case c.Bool("csv"):
		return csv.NewWriter(c.App.Writer).WriteAll(runs.Records(sums))
	case len(sums) == 0:
		_, err := fmt.Fprintln(c.App.Writer, "no jobs")
		return err
	}
	err := runs.PrintSums(c.App.Writer, sums, c.String("by"), rtcli.TerminalWidth(c.App.Writer))
	fmt.Fprintln(c.App.Writer, whoseText(c, lines))
	return err
}

// whoseText says whose jobs are summed.
func whoseText(c *cli.Context, lines []runs.Line) string {
	users := map[string]bool{}
	for i := range lines {
		users[lines[i].User] = true
	}
	switch {
	case len(users) > 1:
		return fmt.Sprintf("The jobs of %d users are summed.", len(users))
	case users[self()] && c.Bool("allusers"):
		return "Your own jobs are summed."
	case users[self()]:
		return "Your own jobs are summed; -a adds jobs of others that you may see."
	}
	return "The jobs of " + cmp.Or(report.Plain(lines[0].User), "an unknown user") + " are summed."
}

// printWaiting names the jobs that wait, with Slurm's reasons.
func printWaiting(c *cli.Context, waiting []accounting.Queued) {
	const shown = 5
	var list []string
	for _, q := range waiting[:min(shown, len(waiting))] {
		list = append(list, fmt.Sprintf("%s %s (%s)", q.Label, report.Plain(q.Name), report.Plain(q.Reason)))
	}
	if more := len(waiting) - shown; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	if len(list) > 0 {
		fmt.Fprintln(c.App.Writer, "Waiting: "+strings.Join(list, ", "))
	}
}

// printChanges says in a sentence each what jobs could change: those that were killed, then the most wasteful ones.
func printChanges(c *cli.Context, lines []runs.Line) error {
	lines = slices.DeleteFunc(slices.Clone(lines), func(l runs.Line) bool {
		isSmall := l.WasteHours.Or(0) < leastWaste && !isKilled(&l)
		return isRunning(&l) || isSmall
	})
	runs.SortByWaste(lines)
	slices.SortStableFunc(lines, func(a, b runs.Line) int {
		switch {
		case isKilled(&a) == isKilled(&b):
			return 0
		case isKilled(&a):
			return -1
		}
		return 1
	})
	seen := map[string]bool{} // jobs with one name have one script
	lines = slices.DeleteFunc(lines, func(l runs.Line) bool {
		name := l.User + "/" + cmp.Or(l.Name, l.Job)
		isSeen := seen[name]
		seen[name] = true
		return isSeen
	})
	var changes []string
	for i := range lines[:min(triedChanges, len(lines))] {
		if len(changes) == shownChanges {
			break
		}
		l := &lines[i]
		text := changeOf(c, l)
		if text == "" {
			continue
		}
		why := report.Significant(l.WasteHours.Or(0)) + " core-hours"
		if isKilled(l) {
			why = report.StateWords(rt.Outcome(l.State))
		}
		label := fmt.Sprintf("  %s %s, %s: ", l.Job, report.Plain(l.Name), why)
		changes = append(changes, foldChange(label, text))
	}
	if len(changes) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(c.App.Writer, "\nWhat to change:\n"+strings.Join(changes, "\n"))
	return err
}

// isKilled reports whether a job was killed for memory or at its time limit.
func isKilled(l *runs.Line) bool {
	return l.State == string(rt.OutcomeOOM) || l.State == string(rt.OutcomeTimeout)
}

// foldChange breaks a line that is too wide, but never between the options of a request: they can be copied.
func foldChange(label, text string) string {
	options, rest, hasRest := strings.Cut(text, "; ")
	isRequest := strings.HasPrefix(options, "request ")
	isNarrow := utf8.RuneCountInString(label+text) <= rtcli.Width
	switch {
	case !isRequest || isNarrow:
		return label + rtcli.Fold(text, utf8.RuneCountInString(label), 4)
	case utf8.RuneCountInString(label+options) > rtcli.Width:
		label = strings.TrimRight(label, " ") + "\n    "
	}
	if hasRest {
		options += ";\n    " + rtcli.Fold(rest, 4, 4)
	}
	return label + options
}

// changeOf says what a job could change; empty if that is not known.
func changeOf(c *cli.Context, l *runs.Line) string {
	jobs, _, err := loadJob(c, l.Job)
	at := slices.IndexFunc(jobs, func(j *report.JobSummary) bool { return j.Cluster == l.Cluster && j.Start.Equal(l.Start) })
	if err != nil || at < 0 {
		return ""
	}
	return jobs[at].Change()
}
