package api

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/resource-tracker/rt/site/registry"
)

// readTime limits the time in which the ages of the nodes are read.
const readTime = 10 * time.Second

// ages are the groups of nodes by the age of their last delivery. A node is in the first group that it fits.
var ages = []struct {
	label string
	most  time.Duration
}{{"1h", time.Hour}, {"6h", 6 * time.Hour}, {"1d", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}, {"older", 1 << 62}}

// never is the group of the nodes that have delivered nothing. gone has the nodes that would be in
// never or in the last group, without a report for goneAfter: most were removed.
const (
	never     = "never"
	gone      = "gone"
	goneAfter = 7 * 24 * time.Hour
)

var (
	nodesDesc = prometheus.NewDesc("rt_site_nodes",
		"Nodes by the age of their last successful drain: at most 1h, then at most 6h, 1d, 7d, older, or never; gone: without a report for 7d, and older or never.", []string{"last_delivery"}, nil)
	runsDesc = prometheus.NewDesc("rt_site_node_undelivered_runs",
		"Runs that wait on these nodes, as they have reported it.", []string{"last_delivery"}, nil)
	reportsDesc = prometheus.NewDesc("rt_site_node_reports",
		"Nodes by the age of their last report.", []string{"last_report"}, nil)
	upDesc = prometheus.NewDesc("rt_site_database_up", "Whether the database has answered for these metrics.", nil, nil)
)

// backlog collects the ages of the nodes. If the database does not answer, they have no metrics.
type backlog struct{ nodes *registry.Nodes }

// Describe implements prometheus.Collector.
func (backlog) Describe(to chan<- *prometheus.Desc) {
	to <- nodesDesc
	to <- runsDesc
	to <- reportsDesc
	to <- upDesc
}

// Collect implements prometheus.Collector.
func (b backlog) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	list, err := b.nodes.Ages(ctx)
	if err != nil { // it is counted where it occurs
		gauge(upDesc, 0)
		return
	}
	gauge(upDesc, 1)
	now := time.Now()
	delivered, reported, waiting := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, n := range list {
		group := groupOf(now, n.LastSuccess.Or(time.Time{}))
		isLast := group == never || group == ages[len(ages)-1].label
		if isLast && now.Sub(n.Reported) > goneAfter {
			group = gone
		}
		delivered[group]++
		waiting[group] += float64(n.Undelivered.Or(0))
		reported[groupOf(now, n.Reported)]++
	}
	for _, age := range ages {
		gauge(nodesDesc, delivered[age.label], age.label)
		gauge(runsDesc, waiting[age.label], age.label)
		gauge(reportsDesc, reported[age.label], age.label)
	}
	for _, group := range []string{never, gone} {
		gauge(nodesDesc, delivered[group], group)
		gauge(runsDesc, waiting[group], group)
	}
}

func groupOf(now, at time.Time) string {
	if at.IsZero() {
		return never
	}
	k := 0
	for now.Sub(at) > ages[k].most {
		k++
	}
	return ages[k].label
}
