package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt/report/runs"
)

// noneText says that the list has no job, with the filters, and which of them excludes jobs.
func (j *collected) noneText(c *cli.Context) string {
	text := "no jobs"
	if users := usersOf(c); !slices.Equal(users, []string{self()}) && len(users) > 0 {
		text += " of " + strings.Join(users, ", ")
	}
	for _, one := range []struct{ flag, words string }{
		{"account", " of the account "}, {"partition", " in the partition "}, {"name", " with the name "}, {"state", " in the state "},
	} {
		if value := c.String(one.flag); value != "" {
			text += one.words + value
		}
	}
	if j.isLocal(c) || c.IsSet("spool") {
		text += " on this machine" // the others are not asked
	}
	if until := c.String("until"); until != "" && !c.IsSet("since") {
		text += " in the week before " + until
	} else {
		text += " since " + cmp.Or(c.String("since"), defaultSince)
	}
	if until := c.String("until"); until != "" && c.IsSet("since") {
		text += " and until " + until
	}
	return text + "; " + j.whyNone()
}

// whyNone names the filter without which there are jobs, else it says how to look further back.
func (j *collected) whyNone() string {
	for _, one := range []struct {
		flag string
		drop func(f *runs.Filter)
	}{
		{"--name", func(f *runs.Filter) { f.Name = "" }}, {"--state", func(f *runs.Filter) { f.States = nil }},
		{"--partition", func(f *runs.Filter) { f.Partitions = nil }}, {"--account", func(f *runs.Filter) { f.Accounts = nil }},
	} {
		f := j.filter
		one.drop(&f)
		if n := len(j.Lines(f, false, j.prices)); n > 0 {
			return fmt.Sprintf("without %s there are %d", one.flag, n)
		}
	}
	return "--since 4w looks further back"
}

// notePartial says that a list of the jobs of others has only jobs of the user.
func notePartial(c *cli.Context, jobs *collected) {
	isOwn := slices.Equal(usersOf(c), []string{self()})
	if isOwn {
		return
	}
	lines := jobs.Lines(jobs.filter, false, jobs.prices)
	recorded := slices.DeleteFunc(slices.Clone(lines), func(l runs.Line) bool { return l.Nodes == 0 }) // squeue shows the others to all
	hasOthers := slices.ContainsFunc(recorded, func(l runs.Line) bool { return l.User != self() })
	absent := slices.DeleteFunc(usersOf(c), func(name string) bool {
		return slices.ContainsFunc(recorded, func(l runs.Line) bool { return l.User == name })
	})
	isFound := c.IsSet("user") && len(absent) == 0
	isPart := c.IsSet("user") && len(lines) > 0
	here := "only your own jobs are here"
	switch {
	case len(lines) == 0:
		here = "no jobs of others are here"
	case len(recorded) == 0:
		here = "only what squeue shows is here"
	}
	switch {
	case isFound:
	case jobs.Denied > 0 && !hasOthers:
		say(c, "%s: you may not see %d records of jobs of others", here, jobs.Denied)
	case jobs.Denied > 0:
		say(c, "some jobs are not here: you may not see %d records of jobs of others", jobs.Denied)
	case !hasOthers && jobs.cfg.Site.URL != "":
		say(c, "%s: the site shows the jobs of others to operators, and to coordinators of their accounts", here)
	case isPart:
		say(c, "no jobs of %s are here", strings.Join(absent, ", "))
	}
}
