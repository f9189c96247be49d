package api

import (
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site/registry"
)

// Metrics counts what the service of a site does, for Prometheus. No metric has the name of a user, a job or a node.
type Metrics struct {
	list *prometheus.Registry

	requests       *prometheus.CounterVec   // by route and code
	latency        *prometheus.HistogramVec // by route
	active         prometheus.Gauge
	received, sent *prometheus.CounterVec // bytes, by route
	runs           *prometheus.CounterVec // by outcome
	database       *prometheus.CounterVec // errors, by kind
	store          *prometheus.CounterVec // errors, by operation
	storeLatency   *prometheus.HistogramVec
}

// The kinds of errors of the database, and the operations of the object store.
var (
	kinds      = []string{"away", "full", "damaged", "other"}
	operations = []string{"put", "get", "delete", "list"}
)

// NewMetrics returns the metrics of a service that has just started.
func NewMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rt_site_" + name, Help: help}, labels)
	}
	histogram := func(name, help, label string) *prometheus.HistogramVec {
		buckets := []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.3, 1, 3, 10, 30}
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rt_site_" + name, Help: help, Buckets: buckets}, []string{label})
	}
	m := &Metrics{
		list:         prometheus.NewRegistry(),
		requests:     counter("requests_total", "Requests that were answered, by the status of the answer; cut: the answer was broken off after an error.", "route", "code"),
		latency:      histogram("request_duration_seconds", "Time from the header of a request to the end of its answer.", "route"),
		active:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "rt_site_requests_in_progress", Help: "Requests that have no answer yet."}),
		received:     counter("received_bytes_total", "Bytes of the bodies of requests that were read.", "route"),
		sent:         counter("sent_bytes_total", "Bytes of the bodies of answers.", "route"),
		runs:         counter("finished_runs_total", "Runs that were finished for the first time.", "outcome"),
		database:     counter("database_errors_total", "Calls of the database that failed.", "kind"),
		store:        counter("store_errors_total", "Calls of the object store that failed.", "operation"),
		storeLatency: histogram("store_duration_seconds", "Time of a call of the object store; of get, until the object is open.", "operation"),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "rt_site_build_info", Help: "Version of rt-site.", ConstLabels: prometheus.Labels{"version": rt.Version}})
	info.Set(1)
	m.list.MustRegister(m.requests, m.latency, m.active, m.received, m.sent, m.runs, m.database, m.store, m.storeLatency, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// A counter that exists from the start shows its first increase.
	for _, kind := range kinds {
		m.database.WithLabelValues(kind)
	}
	for _, operation := range operations {
		m.store.WithLabelValues(operation)
	}
	for _, outcome := range outcomes {
		m.runs.WithLabelValues(outcome)
	}
	return m
}

// Finished counts a run that was finished for the first time. One with another outcome counts as unknown.
func (m *Metrics) Finished(outcome rt.Outcome) {
	if !slices.Contains(outcomes, string(outcome)) {
		outcome = rt.OutcomeUnknown
	}
	m.runs.WithLabelValues(string(outcome)).Inc()
}

// DatabaseFailed counts an error of the database, of one of the kinds away, full, damaged and other.
func (m *Metrics) DatabaseFailed(kind string) {
	if !slices.Contains(kinds, kind) {
		kind = "other"
	}
	m.database.WithLabelValues(kind).Inc()
}

// Answering writes the metrics in the text format of Prometheus. With each request it reads the
// ages of the nodes, and of the lake if there is one. At most two requests do so at the same time.
func (m *Metrics) Answering(r *registry.Registry, hasLake bool) http.Handler {
	ages := prometheus.NewRegistry()
	ages.MustRegister(backlog{r.Nodes})
	if hasLake {
		ages.MustRegister(lakeAge{r.Lake})
	}
	return promhttp.HandlerFor(prometheus.Gatherers{m.list, ages}, promhttp.HandlerOpts{
		DisableCompression: true, MaxRequestsInFlight: 2, Timeout: 20 * time.Second, ErrorHandling: promhttp.ContinueOnError,
	})
}
