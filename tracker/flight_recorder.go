package tracker

import (
	"path/filepath"
	"runtime/metrics"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/format/ftdc"
)

const (
	// flightDir is the directory of a node's flight records, below the spool.
	flightDir = "flight"
	// flightFiles is the maximum number of records. Records of ended trackers are removed first.
	flightFiles = 64
)

// FlightRecorder records a tracker's own cost and errors at each reading. It is the last sink, so
// that the cost includes the spooling.
type FlightRecorder struct {
	log     *ftdc.Log
	ledger  collect.Ledger
	events  [len(flightEvents)]atomic.Int64
	datum   ftdc.FlatDatum // reused, as is what follows
	runtime []metrics.Sample
	before  int64 // Boot of the reading before, 0 at first
	failing bool
}

// flightEvents lists the counters of events. An event counts in the first entry that matches; an
// empty kind or status matches all events.
var flightEvents = [...]struct{ kind, status, metric string }{
	{"gap", "", "ledger.gaps"}, {"sensor", "failed", "ledger.sensors_failed"}, {"sensor", "denied", "ledger.sensors_denied"},
	{"spool", "", "ledger.spool"}, {"tracker", "", "ledger.tracker"}, {"", "", "ledger.others"},
}

// NewFlightRecorder returns the recorder of a run. bytes limits the size of all records of
// the node; if it is 0, the recorder is nil. Events pass through it to ledger.
func NewFlightRecorder(spoolDir string, run *rt.Run, bytes int64, ledger collect.Ledger) *FlightRecorder {
	if bytes <= 0 {
		return nil
	}
	return &FlightRecorder{
		log: ftdc.NewLog(filepath.Join(spoolDir, flightDir), run.FileStem(), ftdc.LogOptions{
			FileBytes: bytes / flightFiles, Files: flightFiles,
		}),
		ledger: ledger,
		runtime: []metrics.Sample{
			{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}, {Name: "/sched/goroutines:goroutines"},
		},
	}
}

// Event implements collect.Ledger: it counts e and passes it on.
func (f *FlightRecorder) Event(e rt.Event) {
	f.Count(e)
	f.ledger.Event(e)
}

// Count counts an event that is in the ledger already.
func (f *FlightRecorder) Count(e rt.Event) {
	for i, c := range flightEvents {
		isKind, isStatus := c.kind == "" || c.kind == e.Kind, c.status == "" || c.status == e.Status
		if isKind && isStatus {
			f.events[i].Add(1)
			return
		}
	}
}

// Put implements collect.Sink. A record that cannot be written harms no run: the ledger
// gets one event, and the next reading tries again.
func (f *FlightRecorder) Put(s *rt.Snapshot) error {
	f.datum.Time, f.datum.Readings = s.Wall, f.datum.Readings[:0]
	f.addReading(s)
	f.addCost()
	for i := range f.events {
		f.add(flightEvents[i].metric, float64(f.events[i].Load()))
	}
	err := f.log.Write(&f.datum)
	if err != nil && !f.failing {
		f.report(err)
	}
	f.failing = err != nil
	return nil
}

// addReading adds the figures of the newest reading.
func (f *FlightRecorder) addReading(s *rt.Snapshot) {
	f.add("reading.seq", float64(s.Seq))
	f.add("reading.reason", float64(s.Reason))
	interval := 0.0
	if f.before != 0 {
		interval = float64(s.Boot-f.before) / 1e9
	}
	f.before = s.Boot
	f.add("reading.interval_secs", interval)
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) == nil {
		f.add("reading.took_ms", float64(now.Nano()-s.Boot)/1e6)
	}
	f.add("job.phase", float64(s.Job.Phase))
	if n, ok := s.Job.Pids.Get(); ok {
		f.add("job.processes", float64(n))
	}
	f.add("job.steps", float64(len(s.Steps)))
}

// addCost adds what the tracker has used: getrusage(2) and the figures of the Go runtime.
func (f *FlightRecorder) addCost() {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) == nil {
		f.add("tracker.user_ms", float64(u.Utime.Nano())/1e6)
		f.add("tracker.system_ms", float64(u.Stime.Nano())/1e6)
		f.add("tracker.max_rss_kib", float64(u.Maxrss))
		f.add("tracker.major_faults", float64(u.Majflt))
		f.add("tracker.voluntary_switches", float64(u.Nvcsw))
		f.add("tracker.involuntary_switches", float64(u.Nivcsw))
	}
	metrics.Read(f.runtime)
	for i, name := range [...]string{"go.heap_bytes", "go.gc_cycles", "go.goroutines"} {
		if v := f.runtime[i].Value; v.Kind() == metrics.KindUint64 {
			f.add(name, float64(v.Uint64()))
		}
	}
}

func (f *FlightRecorder) add(name string, v float64) {
	f.datum.Readings = append(f.datum.Readings, ftdc.Reading{MetricName: name, Value: float32(v)})
}

// Close ends the record.
func (f *FlightRecorder) Close() {
	if err := f.log.Close(); err != nil {
		f.report(err)
	}
}

func (f *FlightRecorder) report(err error) {
	f.ledger.Event(rt.Event{Kind: "tracker", Name: "flight recorder", Status: "failed", Detail: err.Error()})
}
