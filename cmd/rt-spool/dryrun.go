package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/config"
	"github.com/resource-tracker/rt/internal/delivery"
	"github.com/resource-tracker/rt/spool"
)

// planned is a file as ls lists it, with what a drain would do with it.
type planned struct {
	Action string `json:"action"`           // "deliver", "close and deliver", "upload", "remove", "leave"
	Record string `json:"record,omitempty"` // whether its record is sent: "yes", "no", "if taken"
	listed
	WouldSend *delivery.Preview `json:"would_send,omitempty"`
}

// planColumns are the columns of ls that are shown with an action.
var planColumns = []string{"JOB", "NODE", "STARTED", "READINGS", "UNSENT", "KIB"}

// dryRun lists what a drain would do now, in its order, without delivered runs that stay.
// It takes no lock, changes nothing and sends no request.
func dryRun(c *cli.Context, cfg config.Config) error {
	dir, err := drainDirectory(cfg)
	if err == nil {
		err = spoolThere(cfg.Spool.Dir)
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
		p := planned{Action: action, Record: record, listed: listedAs(&entries[i])}
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
	err = printPlan(c.App.Writer, list)
	if dir.Privacy.Hides() {
		fmt.Fprintf(c.App.Writer, "names that leave: %s; --json shows the registrations\n", &dir.Privacy)
	}
	return err
}

func printPlan(w io.Writer, list []planned) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "nothing to deliver")
		return err
	}
	t := rtcli.Table{Columns: []rtcli.Column{{Head: "ACTION"}, {Head: "RECORD"}}}
	for i := range list {
		t.Rows = append(t.Rows, []string{list[i].Action, cmp.Or(list[i].Record, "-")})
	}
	for _, c := range lsColumns {
		if !slices.Contains(planColumns, c.Head) {
			continue
		}
		t.Columns = append(t.Columns, c.Column)
		for i := range list {
			t.Rows[i] = append(t.Rows[i], c.of(&list[i].listed))
		}
	}
	if _, err := t.Write(w, 0); err != nil {
		return err
	}
	for i := range list {
		if err := printUnreadable(w, &list[i].listed); err != nil {
			return err
		}
	}
	return nil
}
