package main

import (
	"path"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/report/list"
)

func jobFilterOf(c *cli.Context, now time.Time) (f list.Filter, err error) {
	if c.NArg() > 0 {
		return f, rtcli.Usage("jobs takes no JOB: rt-spool report %s shows one", c.Args().First())
	}
	if c.Bool("json") && c.Bool("csv") {
		return f, rtcli.Usage("give --json or --csv, not both")
	}
	if order := c.String("sort"); order != sortStart && order != sortWaste {
		return f, rtcli.Usage("--sort %q: it is start or waste", order)
	}
	f.Users, f.Accounts, f.Partitions = commaList(c.String("user")), commaList(c.String("account")), commaList(c.String("partition"))
	for _, s := range commaList(strings.ToLower(c.String("state"))) {
		state, ok := list.State(s)
		if !ok {
			return f, rtcli.Usage("--state %q: it is one of %s", s, strings.Join(list.States, ", "))
		}
		f.States = append(f.States, state)
	}
	f.Name = c.String("name")
	if _, err := path.Match(f.Name, ""); err != nil {
		return f, rtcli.Usage("--name %q: the brackets of the pattern do not match", f.Name)
	}
	for flag, to := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		text := c.String(flag)
		if text == "" {
			continue
		}
		t, ok := list.ParseTime(text, now)
		if !ok {
			return f, rtcli.Usage("--%s %q: give a time such as 2026-03-01, 2026-03-01T12:30 or 12:30, or how long ago, such as 7d, 12h or 30m", flag, text)
		}
		*to = t
	}
	return f, nil
}

func commaList(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' })
}
