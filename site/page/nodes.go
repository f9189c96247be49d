package page

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/site"
)

const (
	mostNodes  = 20_000
	batchNodes = 1000
)

// nodesPage is the list of nodes, those with the most urgent problem first.
type nodesPage struct {
	listView
	All, Problems int
	IsPartial     bool
	Show          string // "problems": only the nodes that have some
	Other         string // link to all nodes, or else to those with problems
}

// nodeRow is a node in a table.
type nodeRow struct {
	site.Node
	problems []site.Problem // the most urgent one first
	now      time.Time
}

type nodeColumn = column[nodeRow]

func countColumn(key, head, file string, of func(n *nodeRow) rt.Opt[int64], text func(v rt.Opt[int64]) string) nodeColumn {
	return nodeColumn{key: key, head: head, file: file, isNumber: true, cell: func(_ *Pages, n *nodeRow) cell {
		v := of(n)
		return cell{Text: text(v), Value: rt.Map(v, func(v int64) float64 { return float64(v) })}
	}}
}

// ageColumn has how long ago an instant was.
func ageColumn(key, head string, of func(n *nodeRow) time.Time) nodeColumn {
	return nodeColumn{key: key, head: head, file: key + "_age_secs", isNumber: true, cell: func(_ *Pages, n *nodeRow) cell {
		c, at := cell{Text: ago(of(n), n.now)}, of(n)
		if !at.IsZero() {
			c.Value.Set(float64(n.now.Sub(at) / time.Second))
		}
		return c
	}}
}

// nodeList is the list of nodes.
var nodeList = listing[nodeRow]{"nodes", "problem", mostNodes, []nodeColumn{
	{key: "node", head: "Node", file: "node", isText: true, cell: func(_ *Pages, n *nodeRow) cell {
		return cell{Text: printable.Text(n.Node.Node), Link: link("jobs", map[string]string{"node": n.Node.Node})}
	}},
	{key: "cluster", head: "Cluster", file: "cluster", isText: true, cell: func(_ *Pages, n *nodeRow) cell { return cell{Text: printable.Text(n.Cluster)} }},
	{key: "problem", head: "What to act on", file: "problems", cell: func(_ *Pages, n *nodeRow) cell {
		c := cell{Problems: n.problems, Value: rt.Some(0.0)}
		for _, one := range n.problems {
			c.Text += one.What + ". "
			c.Value.Set(max(c.Value.Or(0), float64(one.Urgency)))
		}
		return c
	}},
	ageColumn("report", "Last report", func(n *nodeRow) time.Time { return n.Reported }),
	ageColumn("success", "All delivered", func(n *nodeRow) time.Time { return n.LastSuccess.Or(time.Time{}) }),
	ageColumn("oldest", "Oldest run that waits", func(n *nodeRow) time.Time { return n.OldestUndelivered.Or(time.Time{}) }),
	countColumn("waiting", "Runs that wait", "waiting_runs", func(n *nodeRow) rt.Opt[int64] { return n.UndeliveredRuns }, count),
	countColumn("size", "Their size", "waiting_bytes", func(n *nodeRow) rt.Opt[int64] { return n.UndeliveredBytes }, mebibytes),
	countColumn("trackers", "Trackers", "trackers", func(n *nodeRow) rt.Opt[int64] { return n.Trackers }, count),
	countColumn("lost", "Lost runs", "lost_runs", func(n *nodeRow) rt.Opt[int64] { return n.Lost }, count),
	countColumn("hooks", "Hook failures", "hook_failures", func(n *nodeRow) rt.Opt[int64] { return n.HookFailures }, count),
	{key: "spool", head: "Spool", file: "spool_bytes", isNumber: true, cell: func(_ *Pages, n *nodeRow) cell {
		return cell{Text: spoolText(n.Node), Value: rt.Map(n.SpoolBytes, func(v int64) float64 { return float64(v) })}
	}},
	{key: "version", head: "Version", file: "version", isText: true, cell: func(_ *Pages, n *nodeRow) cell { return cell{Text: cmp.Or(printable.Text(n.Version), dash)} }},
}}

// nodes answers with the nodes. They are for operators.
func (p *Pages) nodes(w http.ResponseWriter, r request) error { return p.nodesOf(w, r, false) }

func (p *Pages) nodesFile(w http.ResponseWriter, r request) error { return p.nodesOf(w, r, true) }

func (p *Pages) nodesOf(w http.ResponseWriter, r request, isFile bool) error {
	if !r.reader.Operator {
		return errAbsent
	}
	values, err := valuesOf(r, []string{"show", "sort", "cols"})
	if err != nil {
		return err
	}
	by, err := nodeList.order(values["sort"])
	if err != nil {
		return err
	}
	if to := nodeList.short(r, values); to != "" && !isFile {
		return seeOther(w, to)
	}
	page, nodes, err := p.findNodes(r, values["show"] == "problems")
	if err != nil {
		return err
	}
	nodeList.sort(p, nodes, by)
	shown := nodeList.shown(values["cols"], nodes)
	if isFile {
		return nodeList.writeCSV(p, w, nodes, shown, !page.IsPartial)
	}
	page.listView = nodeList.view(nodeList.table(p, nodes, shown, nil), by, values)
	page.Table.Label, page.Show, page.Other = "Nodes", values["show"], link("nodes", values, "show", "problems")
	if page.Show != "" {
		page.Other = link("nodes", values, "show", "")
	}
	return p.show(r, w, "nodes.html.tmpl", "Nodes", page)
}

// findNodes returns the nodes, or those with a problem.
func (p *Pages) findNodes(r request, onlyBad bool) (page nodesPage, nodes []nodeRow, err error) {
	now := time.Now()
	all := site.AllPages(func(cursor string) ([]site.Node, string, error) {
		return p.conf.Registry.Nodes.List(r.Context(), site.NodeFilter{}, cursor, batchNodes)
	})
	for n, err := range all {
		if err != nil {
			return page, nil, err
		}
		if page.All == mostNodes {
			page.IsPartial = true
			break
		}
		row := nodeRow{n, n.Problems(now), now}
		page.All++
		if len(row.problems) > 0 {
			page.Problems++
		} else if onlyBad {
			continue
		}
		nodes = append(nodes, row)
	}
	return page, nodes, nil
}

func count(v rt.Opt[int64]) string {
	n, ok := v.Get()
	if !ok {
		return dash
	}
	return grouped(n)
}

func mebibytes(v rt.Opt[int64]) string {
	n, ok := v.Get()
	if !ok {
		return dash
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// spoolText is the size of the spool, and the part of the limit if there is one.
func spoolText(n site.Node) string {
	text := mebibytes(n.SpoolBytes)
	hasLimit := n.SpoolLimit.Or(0) > 0 && n.SpoolBytes.Valid()
	if hasLimit {
		text += fmt.Sprintf(", %d %%", n.SpoolFull())
	}
	return text
}
