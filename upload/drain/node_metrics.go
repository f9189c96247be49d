package drain

import (
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// figure is one metric of a node.
type figure struct {
	name, help string
	kind       prometheus.ValueType
	value      rt.Opt[float64]
}

// NodeMetrics returns a state as metrics of Prometheus. What is not known has no metric.
func NodeMetrics(n site.NodeState) prometheus.Gatherer {
	labels := prometheus.Labels{"version": n.Version, "schema": strconv.FormatInt(n.Schema.Or(0), 10)}
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "rt_build_info", Help: "Version of rt-spool, and of the spool files that it writes.", ConstLabels: labels})
	info.Set(1)
	list := prometheus.NewRegistry()
	list.MustRegister(info, prometheus.CollectorFunc(func(to chan<- prometheus.Metric) { sendFigures(n, to) }))
	return list
}

func sendFigures(n site.NodeState, to chan<- prometheus.Metric) {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	for _, f := range []figure{
		{"rt_trackers_alive", "Trackers that are running.", gauge, number(n.Trackers)},
		{"rt_spool_undelivered_runs", "Runs that have ended and are not delivered.", gauge, number(n.UndeliveredRuns)},
		{"rt_spool_undelivered_bytes", "Size of the files of these runs.", gauge, number(n.UndeliveredBytes)},
		{"rt_spool_oldest_undelivered_timestamp_seconds", "End of the oldest run that is not delivered.", gauge, instant(n.OldestUndelivered)},
		{"rt_spool_unreadable_files", "Files of the spool that cannot be read.", gauge, number(n.Unreadable)},
		{"rt_spool_bytes", "Disk space of the spool.", gauge, number(n.SpoolBytes)},
		{"rt_spool_limit_bytes", "Disk space of the spool above which runs are thinned.", gauge, number(n.SpoolLimit)},
		{"rt_spool_filesystem_size_bytes", "Size of the file system of the spool.", gauge, number(n.DiskBytes)},
		{"rt_spool_filesystem_free_bytes", "Free space of the file system of the spool.", gauge, number(n.DiskFree)},
		{"rt_drain_last_timestamp_seconds", "End of the last drain.", gauge, instant(n.LastDrain)},
		{"rt_drain_last_success_timestamp_seconds", "End of the last drain that delivered all ended runs.", gauge, instant(n.LastSuccess)},
		{"rt_drain_failures_since_success", "Drains since then.", gauge, number(n.FailedDrains)},
		{"rt_drain_delivered_runs_total", "Runs that were delivered.", counter, number(n.Delivered)},
		{"rt_drain_lost_runs_total", "Runs with a tracker that died.", counter, number(n.Lost)},
		{"rt_hook_failures", "Prologs in a row that started no tracker.", gauge, number(n.HookFailures)},
		{"rt_hook_breaker_open", "Whether the Prologs start no tracker because of failures.", gauge, breakerOpen(n)},
		{"rt_hooks_disabled", "Whether the file of the kill switch exists.", gauge, truth(n.HooksDisabled)},
	} {
		if value, ok := f.value.Get(); ok {
			to <- prometheus.MustNewConstMetric(prometheus.NewDesc(f.name, f.help, nil, nil), f.kind, value)
		}
	}
}

func number(n rt.Opt[int64]) rt.Opt[float64] {
	return rt.Map(n, func(n int64) float64 { return float64(n) })
}

// instant is in seconds since 1970.
func instant(at rt.Opt[time.Time]) rt.Opt[float64] {
	return rt.Map(at, func(at time.Time) float64 { return float64(at.UnixMilli()) / 1e3 })
}

var truths = map[bool]float64{true: 1}

func truth(is rt.Opt[bool]) rt.Opt[float64] {
	return rt.Map(is, func(is bool) float64 { return truths[is] })
}

// breakerOpen is known if the failures are.
func breakerOpen(n site.NodeState) rt.Opt[float64] {
	return rt.Map(n.HookFailures, func(int64) float64 { return truths[n.BreakerUntil.Valid()] })
}

// PrintMetrics writes metrics in the text format of Prometheus.
func PrintMetrics(w io.Writer, metrics prometheus.Gatherer) error {
	families, err := metrics.Gather()
	for _, f := range families {
		_, writeErr := expfmt.MetricFamilyToText(w, f)
		err = errors.Join(err, writeErr)
	}
	return err
}
