package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload/drain"
)

// planned is a file as ls lists it, with what a drain would do with it.
type planned struct {
	runs.Planned
	WouldSend *drain.Preview `json:"would_send,omitempty"`
}

// dryRun lists what a drain would do now, in its order, without delivered runs that stay.
// It takes no lock, changes nothing and sends no request.
func dryRun(c *cli.Context, cfg config.Config) error {
	dir, err := drainDirectory(cfg)
	if err == nil {
		err = runs.CheckExists(cfg.Spool.Dir)
	}
	if err != nil {
		return err
	}
	entries, err := spool.List(cfg.Spool.Dir)
	if err != nil {
		return err
	}
	if _, _, _, err := connect(cfg.Sentinel); err != nil {
		rtcli.Message(c.App.ErrWriter, "rt-spool", "warning: %v", err)
	}
	list := make([]planned, 0, len(entries))
	for i := range entries {
		if entries[i].Err == nil {
			entries[i].Err = spool.CheckOwner(entries[i].Path) // a drain changes the file
		}
		action, record := dir.Plan(&entries[i], c.Bool("live"))
		p := planned{Planned: runs.Planned{Action: action, Record: record, Listed: runs.ListedAs(&entries[i])}}
		if isSent := c.Bool("json") && record != ""; isSent {
			p.WouldSend = dir.Preview(&entries[i], dialectOf(cfg.Sentinel))
		}
		if p.Action != "" {
			list = append(list, p)
		}
	}
	if c.Bool("json") {
		return rtcli.PrintJSON(c.App.Writer, list)
	}
	rows := make([]runs.Planned, len(list))
	for i := range list {
		rows[i] = list[i].Planned
	}
	err = runs.PrintPlan(c.App.Writer, rows)
	if dir.Privacy.Hides() {
		fmt.Fprintf(c.App.Writer, "names that leave: %s; --json shows the registrations\n", &dir.Privacy)
	}
	return err
}
