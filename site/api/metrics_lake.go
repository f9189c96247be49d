package api

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/resource-tracker/rt/site/registry"
)

var (
	lakeTimeDesc = prometheus.NewDesc("rt_site_lake_last_success_timestamp_seconds",
		"When rt-lake has last written all runs that can be read, in seconds since 1970; absent before the first time.", nil, nil)
	lakeRunsDesc = prometheus.NewDesc("rt_site_lake_unwritten_runs", "Runs that the lake does not have in their last version.", nil, nil)
)

// lakeAge collects the state of the lake. If the database does not answer, it has no metrics.
type lakeAge struct{ lake *registry.LakeRuns }

// Describe implements prometheus.Collector.
func (lakeAge) Describe(to chan<- *prometheus.Desc) {
	to <- lakeTimeDesc
	to <- lakeRunsDesc
}

// Collect implements prometheus.Collector.
func (l lakeAge) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	state, err := l.lake.State(ctx)
	if err != nil { // it is counted where it occurs
		return
	}
	to <- prometheus.MustNewConstMetric(lakeRunsDesc, prometheus.GaugeValue, float64(state.Unwritten))
	if at, ok := state.LastSuccess.Get(); ok {
		to <- prometheus.MustNewConstMetric(lakeTimeDesc, prometheus.GaugeValue, float64(at.UnixMilli())/1000)
	}
}
