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

// The limits from which on an operator has something to do. The limits of the spool are as in the
// alerts in contrib/prometheus.
const (
	lateReport = 6 * time.Hour
	fullSpool  = 80 // percent of the limit
	fullDisk   = 95 // percent of the file system
)

// nodesPage is the list of nodes, those with the most urgent problem first.
type nodesPage struct {
	Nodes            []nodeRow
	All, Problems    int
	IsPartial        bool
	OnlyBad          bool
	LinkAll, LinkBad string
}

// problem is what is wrong with a node, and what an operator does about it.
type problem struct{ What, Remedy string }

// nodeRow is a node in a table.
type nodeRow struct {
	Cluster, Node, JobsLink         string
	Problems                        []problem
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
		Lost: count(n.Lost), Hooks: count(n.HookFailures), Spool: spoolText(n),
	}
	add := func(urgency int, remedy, format string, args ...any) {
		row.Problems = append(row.Problems, problem{fmt.Sprintf(format, args...), remedy})
		row.urgency = max(row.urgency, urgency)
	}
	until, ok := n.BreakerUntil.Get()
	isOpen := ok && until.After(now)
	if isOpen {
		add(7, "The cause is in the log: journalctl -t rt-prolog.", "breaker open until %s UTC: no job is tracked", until.UTC().Format("15:04"))
	}
	if n.HooksDisabled.Or(false) {
		add(6, "Remove the file of hooks.disable_file, /etc/rt/disabled by default.", "hooks are disabled: no job is tracked")
	}
	spool, disk := fullness(n)
	if spool >= fullSpool {
		add(5, "Deliver what waits, or lower spool.retain.", "spool %d %% full", spool)
	}
	if disk >= fullDisk {
		add(5, "Make room, deliver what waits, or lower spool.retain.", "disk of the spool %d %% full", disk)
	}
	if files := n.Unreadable.Or(0); files > 0 {
		add(4, "rt-spool verify names them.", "%s unreadable files", grouped(files))
	}
	if silent := now.Sub(n.Reported); silent > lateReport {
		add(3, "Is the node up, and its timer or cron job of rt-spool drain enabled?", "no report for %s", ago(n.Reported, now))
	}
	if drains := n.FailedDrains.Or(0); drains > 0 {
		add(2, "rt-spool drain on the node prints the cause.", "%s failed drains", grouped(drains))
	}
	if failures := n.HookFailures.Or(0); failures > 0 && !isOpen {
		add(1, "The cause is in the log: journalctl -t rt-prolog.", "%s hook failures in a row", grouped(failures))
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

// fullness is how full the spool and its file system are, in percent; 0 if it is not known.
func fullness(n site.Node) (spool, disk int) {
	if limit := n.SpoolLimit.Or(0); limit > 0 {
		spool = int(float64(n.SpoolBytes.Or(0)) / float64(limit) * 100)
	}
	free, isKnown := n.DiskFree.Get()
	size := n.DiskBytes.Or(0)
	if isKnown && size > 0 {
		disk = int(float64(size-free) / float64(size) * 100)
	}
	return spool, disk
}

// spoolText is the size of the spool, and the part of the limit if there is one.
func spoolText(n site.Node) string {
	text := mebibytes(n.SpoolBytes)
	if limit := n.SpoolLimit.Or(0); limit > 0 && n.SpoolBytes.Valid() {
		text += fmt.Sprintf(", %d %%", int(float64(n.SpoolBytes.Or(0))/float64(limit)*100))
	}
	return text
}
