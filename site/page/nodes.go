package page

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
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
	Nodes            []nodeRow
	All, Problems    int
	IsPartial        bool
	OnlyBad          bool
	LinkAll, LinkBad string
}

// nodeRow is a node in a table.
type nodeRow struct {
	Cluster, Node, JobsLink         string
	Problems                        []site.Problem
	Reported, LastSuccess, Version  string
	Trackers, Waiting, WaitingBytes string
	Oldest, Lost, Hooks, Spool      string
	urgency                         int
}

// nodes answers with the nodes. They are for operators.
func (p *Pages) nodes(w http.ResponseWriter, r request) error {
	if !r.reader.Operator {
		return errAbsent
	}
	page, err := p.nodeList(r, r.URL.Query().Get("show") == "problems")
	if err != nil {
		return err
	}
	page.LinkAll, page.LinkBad = "nodes", "nodes?show=problems"
	return p.show(r, w, "nodes.html.tmpl", "Nodes", page)
}

// nodeList returns the nodes, or those with a problem.
func (p *Pages) nodeList(r request, onlyBad bool) (page nodesPage, err error) {
	page.OnlyBad = onlyBad
	now := time.Now()
	all := site.AllPages(func(cursor string) ([]site.Node, string, error) {
		return p.conf.Registry.Nodes.List(r.Context(), site.NodeFilter{}, cursor, batchNodes)
	})
	for n, err := range all {
		if err != nil {
			return page, err
		}
		if page.All == mostNodes {
			page.IsPartial = true
			break
		}
		row := nodeRowOf(n, now)
		page.All++
		if len(row.Problems) > 0 {
			page.Problems++
		} else if page.OnlyBad {
			continue
		}
		page.Nodes = append(page.Nodes, row)
	}
	slices.SortStableFunc(page.Nodes, func(a, b nodeRow) int { return cmp.Compare(b.urgency, a.urgency) })
	return page, nil
}

func nodeRowOf(n site.Node, now time.Time) nodeRow {
	row := nodeRow{
		Cluster: printable.Text(n.Cluster), Node: printable.Text(n.Node), JobsLink: link("jobs", map[string]string{"node": n.Node}),
		Reported: ago(n.Reported, now), LastSuccess: ago(n.LastSuccess.Or(time.Time{}), now), Version: cmp.Or(printable.Text(n.Version), dash),
		Trackers: count(n.Trackers), Waiting: count(n.UndeliveredRuns), WaitingBytes: mebibytes(n.UndeliveredBytes), Oldest: ago(n.OldestUndelivered.Or(time.Time{}), now),
		Lost: count(n.Lost), Hooks: count(n.HookFailures), Spool: spoolText(n), Problems: n.Problems(now),
	}
	for _, problem := range row.Problems {
		row.urgency = max(row.urgency, problem.Urgency)
	}
	return row
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
