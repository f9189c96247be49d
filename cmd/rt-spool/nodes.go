package main

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/internal/table"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site/client"
)

func nodesCommand() *cli.Command {
	return &cli.Command{
		Name:  "nodes",
		Usage: "show which nodes need attention, such as those that do not deliver; for operators of the site",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "also the nodes without a problem"},
			jsonFlag,
			&cli.BoolFlag{Name: "csv", Usage: "print CSV with a header line"},
			&cli.BoolFlag{Name: "wide", Aliases: []string{"w"}, Usage: "all columns, also on a narrow terminal"},
		},
		Action: withConfig(runNodes),
	}
}

func runNodes(c *cli.Context, cfg config.Config) error {
	isBoth := c.Bool("json") && c.Bool("csv")
	switch {
	case c.NArg() > 0:
		return rtcli.Usage("nodes takes no arguments")
	case isBoth:
		return rtcli.Usage("give --json or --csv, not both")
	}
	site, err := siteOf(c, cfg.Site)
	if err != nil {
		return err
	}
	if site == nil {
		return misconfigured(errors.New("nodes asks the site: set site.url to the address of rt-site"))
	}
	nodes, known := []client.Node{}, 0
	for node, err := range site.Nodes(c.Context) {
		if err != nil {
			return err
		}
		known++
		isShown := len(node.Problems) > 0 || c.Bool("all")
		if isShown {
			nodes = append(nodes, node)
		}
	}
	slices.SortStableFunc(nodes, func(a, b client.Node) int { return cmp.Compare(urgency(&b), urgency(&a)) })
	switch {
	case c.Bool("json"):
		return rtcli.PrintJSON(c.App.Writer, nodes)
	case c.Bool("csv"):
		return csv.NewWriter(c.App.Writer).WriteAll(nodeRecords(nodes))
	}
	return printNodes(c, nodes, known)
}

// urgency is the highest urgency of a node's problems, 0 without any.
func urgency(n *client.Node) int {
	if len(n.Problems) == 0 {
		return 0
	}
	return n.Problems[0].Urgency
}

// problemsOf are the problems of a node in one text.
func problemsOf(n *client.Node) string {
	var texts []string
	for _, p := range n.Problems {
		texts = append(texts, p.What)
	}
	return strings.Join(texts, ", ")
}

func printNodes(c *cli.Context, nodes []client.Node, known int) error {
	bad := 0
	for i := range nodes {
		if len(nodes[i].Problems) > 0 {
			bad++
		}
	}
	fmt.Fprintf(c.App.Writer, "%d of %d nodes need attention\n", bad, known)
	if len(nodes) == 0 {
		return nil
	}
	now := time.Now()
	dropped, err := table.Write(c.App.Writer, []table.Column[client.Node]{
		{Head: "NODE", Cell: func(n *client.Node) string { return n.Node.Node }},
		{Head: "CLUSTER", Drop: 3, IsName: true, Cell: func(n *client.Node) string { return cmp.Or(n.Cluster, "-") }},
		{Head: "REPORT", Cell: func(n *client.Node) string { return timeSince(rt.Some(n.Reported), now) }},
		{Head: "DELIVERED", Drop: 1, Cell: func(n *client.Node) string { return timeSince(n.LastSuccess, now) }},
		{Head: "WAITING", Cell: func(n *client.Node) string { return report.Number(n.UndeliveredRuns, "%d") }},
		{Head: "OLDEST", Drop: 2, Cell: func(n *client.Node) string { return timeSince(n.OldestUndelivered, now) }},
		{Head: "VERSION", Drop: 4, Cell: func(n *client.Node) string { return cmp.Or(n.Version, "-") }},
		{Head: "PROBLEM", Cell: func(n *client.Node) string { return cmp.Or(problemsOf(n), "-") }},
	}, nodes, tableWidth(c))
	if err != nil {
		return err
	}
	if worst := nodes[0]; len(worst.Problems) > 0 {
		p := worst.Problems[0]
		fmt.Fprintf(c.App.Writer, "\n%s: %s. %s\n", printable.Text(worst.Node.Node), printable.Text(p.What), printable.Text(p.Remedy))
	}
	return table.WriteDropped(c.App.Writer, dropped)
}

// timeSince is how long ago a time was, as a clock shows it.
func timeSince(at rt.Opt[time.Time], now time.Time) string {
	t, ok := at.Get()
	if !ok {
		return "-"
	}
	return report.Clock(rt.Some(max(now.Sub(t), 0).Seconds()))
}

// nodeRecords are the nodes as CSV, with a header.
func nodeRecords(nodes []client.Node) [][]string {
	count := func(v rt.Opt[int64]) string {
		return rt.Map(v, func(n int64) string { return strconv.FormatInt(n, 10) }).Or("")
	}
	moment := func(v rt.Opt[time.Time]) string {
		return rt.Map(v, func(t time.Time) string { return t.UTC().Format(time.RFC3339) }).Or("")
	}
	records := [][]string{{"node", "cluster", "reported", "last_successful_drain", "undelivered_runs", "oldest_undelivered", "failed_drains", "spool_bytes", "version", "problems"}}
	for i := range nodes {
		n := &nodes[i]
		records = append(records, []string{
			n.Node.Node, n.Cluster, moment(rt.Some(n.Reported)), moment(n.LastSuccess), count(n.UndeliveredRuns), moment(n.OldestUndelivered),
			count(n.FailedDrains), count(n.SpoolBytes), n.Version, problemsOf(n),
		})
	}
	return records
}
