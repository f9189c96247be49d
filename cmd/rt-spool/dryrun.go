package main

import (
	"fmt"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/spool"
)

// planned is what a drain would do with one file.
type planned struct {
	Run       string    `json:"run"` // the spool file
	Job       string    `json:"job,omitempty"`
	Action    string    `json:"action"` // "deliver", "close and deliver", "upload", "remove", "leave"
	Start     time.Time `json:"start,omitzero"`
	Snapshots int64     `json:"snapshots"`
	Bytes     int64     `json:"size_bytes"`
	Error     string    `json:"error,omitempty"` // why it is left
}

// dryRun lists what a drain would do now, in its order. Delivered runs that stay
// are not listed. It takes no lock, changes nothing and asks nobody. A receiver that
// is not configured yet is no reason not to say what it would get.
func dryRun(c *cli.Context, cfg config.Config) error {
	entries, err := spool.List(cfg.Spool.Dir)
	if err != nil {
		return err
	}
	if _, _, _, err := connect(cfg.Sentinel); err != nil {
		fmt.Fprintln(c.App.ErrWriter, "rt-spool: warning:", err)
	}
	list := make([]planned, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		p := planned{
			Run: filepath.Base(e.Path), Start: e.Run.Start, Snapshots: e.Snapshots, Bytes: e.Size,
			Action: action(e, c.Bool("live"), cfg.Spool.Retain.Duration),
		}
		if p.Action == "" {
			continue
		}
		if e.Err != nil {
			p.Error = e.Err.Error()
		} else {
			p.Job = e.Run.Label()
		}
		list = append(list, p)
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(c.App.Writer, "nothing to deliver")
		return err
	}
	w := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ACTION\tJOB\tSTART\tSNAPSHOTS\tSIZE\tRUN")
	for _, p := range list {
		if p.Error != "" {
			fmt.Fprintf(w, "%s\t\t\t\t%d\t%s\n", p.Action, p.Bytes, p.Error) // which names the file
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", p.Action, p.Job, p.Start.Local().Format(time.DateTime), p.Snapshots, p.Bytes, p.Run)
	}
	return w.Flush()
}

// action is what a drain would do with a file; empty for nothing at all.
func action(e *spool.Entry, live bool, retain time.Duration) string {
	switch {
	case e.Err != nil, e.Live && !live:
		return "leave"
	case e.Live:
		return "upload"
	case e.Run.State == rt.StateDelivered && time.Since(e.DeliveredAt) >= retain:
		return "remove"
	case e.Run.State == rt.StateDelivered:
		return ""
	case e.Run.State == rt.StateRunning:
		return "close and deliver"
	}
	return "deliver"
}
