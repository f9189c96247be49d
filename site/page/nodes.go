package page

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

const (
	mostNodes  = 20_000
	batchNodes = 1000
)

// The limits from which on an operator has something to do.
const (
	lateReport = 6 * time.Hour
	fullSpool  = 90 // percent of the limit, or of the file system
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
	Problems                        []string
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
	page := nodesPage{OnlyBad: r.URL.Query().Get("show") == "problems", LinkAll: "nodes", LinkBad: "nodes?show=problems"}
	now := time.Now()
	for next, isFirst := "", true; isFirst || next != ""; isFirst = false {
		nodes, after, err := p.conf.Registry.Nodes(r.Context(), site.NodeFilter{}, next, batchNodes)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			row := nodeRowOf(n, now)
			page.All++
			if len(row.Problems) > 0 {
				page.Problems++
			} else if page.OnlyBad {
				continue
			}
			page.Nodes = append(page.Nodes, row)
		}
		next = after
		if page.All >= mostNodes && next != "" {
			page.IsPartial = true
			break
		}
	}
	slices.SortStableFunc(page.Nodes, func(a, b nodeRow) int { return cmp.Compare(b.urgency, a.urgency) })
	return r.show(w, "nodes.html.tmpl", "Nodes", page)
}

func nodeRowOf(n site.Node, now time.Time) nodeRow {
	row := nodeRow{
		Cluster: rt.Printable(n.Cluster), Node: rt.Printable(n.Node), JobsLink: link("jobs", map[string]string{"node": n.Node}),
		Reported: moment(n.Reported), LastSuccess: moment(n.LastSuccess.Or(time.Time{})), Version: cmp.Or(rt.Printable(n.Version), dash),
		Trackers: count(n.Trackers), Waiting: count(n.UndeliveredRuns), WaitingBytes: mebibytes(n.UndeliveredBytes), Oldest: moment(n.OldestUndelivered.Or(time.Time{})),
		Lost: count(n.Lost), Hooks: count(n.HookFailures), Spool: spoolText(n),
	}
	add := func(urgency int, format string, args ...any) {
		row.Problems = append(row.Problems, fmt.Sprintf(format, args...))
		row.urgency = max(row.urgency, urgency)
	}
	if until, ok := n.BreakerUntil.Get(); ok && until.After(now) {
		add(7, "breaker open until %s: no job is tracked", moment(until))
	}
	if n.HooksDisabled.Or(false) {
		add(6, "hooks are disabled")
	}
	if pct := fullness(n); pct >= fullSpool {
		add(5, "spool %d %% full", pct)
	}
	if files := n.Unreadable.Or(0); files > 0 {
		add(4, "%s unreadable files", grouped(files))
	}
	if silent := now.Sub(n.Reported); silent > lateReport {
		add(3, "no report for %s", elapsed(n.Reported, now))
	}
	if drains := n.FailedDrains.Or(0); drains > 0 {
		add(2, "%s failed drains", grouped(drains))
	}
	if failures := n.HookFailures.Or(0); failures > 0 {
		add(1, "%s hook failures in a row", grouped(failures))
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

// fullness is how full the spool or its file system is, in percent; 0 if it is not known.
func fullness(n site.Node) int {
	used, limit := n.SpoolBytes.Or(0), n.SpoolLimit.Or(0)
	pct := 0
	if limit > 0 {
		pct = int(float64(used) / float64(limit) * 100)
	}
	free, isKnown := n.DiskFree.Get()
	disk := n.DiskBytes.Or(0)
	if isKnown && disk > 0 {
		pct = max(pct, int(float64(disk-free)/float64(disk)*100))
	}
	return pct
}

func spoolText(n site.Node) string {
	if !n.SpoolBytes.Valid() {
		return dash
	}
	if limit, ok := n.SpoolLimit.Get(); ok {
		return mebibytes(n.SpoolBytes) + " of " + mebibytes(rt.Some(limit))
	}
	return mebibytes(n.SpoolBytes)
}
