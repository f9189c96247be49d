package collect

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// status is the last recorded status of a source or a sink. Empty is "ok".
type status string

// statusError is an error with a status of its own: "not supported", "busy".
type statusError interface {
	error
	Status() string
}

func statusOf(err error) status {
	if err == nil {
		return ""
	}
	own, hasOwn := errors.AsType[statusError](err)
	switch {
	case hasOwn:
		return status(own.Status())
	case errors.Is(err, fs.ErrNotExist):
		return "absent"
	case errors.Is(err, fs.ErrPermission):
		return "denied"
	}
	return "failed"
}

// report records a changed status in the ledger.
func (r *Recorder) report(known *status, kind, name string, err error) {
	now := statusOf(err)
	if now == *known {
		return
	}
	*known = now
	e := rt.Event{Kind: kind, Name: name, Status: string(now)}
	if err == nil {
		e.Status = "ok"
	} else {
		e.Detail = err.Error()
	}
	r.event(e)
}

// gap records readings that were not taken in time.
func (r *Recorder) gap(missed int, late time.Duration) {
	r.missed += missed
	r.event(rt.Event{
		Kind: "gap", Name: "schedule", Status: "missed",
		Detail: fmt.Sprintf("%d readings before snapshot %d were skipped: it was done %.3f s after it was due", missed, r.seq+1, late.Seconds()),
	})
}

// cost records the use of the whole tracker process since its start, the numbers of
// readings due and taken, and the status of its sensors.
func (r *Recorder) cost() {
	r.sensors()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return
	}
	r.event(rt.Event{
		Kind: "tracker", Name: "cost", Status: "ok",
		Detail: fmt.Sprintf("snapshots=%d expected=%d missed=%d left_out=%d cpu_user_secs=%.3f cpu_system_secs=%.3f max_rss_kib=%d",
			r.seq, int(r.seq)+r.missed+r.thinned, r.missed, r.thinned, seconds(u.Utime), seconds(u.Stime), u.Maxrss),
	})
}

// sensors records the status of each sensor: one that never failed is in no other event.
func (r *Recorder) sensors() {
	var all []string
	add := func(name string, is status) {
		all = append(all, name+" "+cmp.Or(string(is), "ok"))
	}
	if r.o.Job != nil {
		add("cgroup", r.job)
	}
	for i, src := range r.o.Node {
		add(src.Name(), r.node[i])
	}
	if r.o.NodeCache != nil {
		add("node cache", r.cache)
	}
	for i, src := range r.o.Sources {
		add(src.Name(), r.sources[i])
	}
	if len(all) > 0 {
		r.event(rt.Event{Kind: "tracker", Name: "sensors", Status: "ok", Detail: strings.Join(all, ", ")})
	}
}

func seconds(t unix.Timeval) float64 { return float64(t.Nano()) / 1e9 }

func (r *Recorder) event(e rt.Event) {
	if r.o.Ledger == nil {
		return
	}
	at, _, _ := r.clock.now()
	e.Time = time.Unix(0, at).UTC()
	r.o.Ledger.Event(e)
}

// read reads a source; a panic counts as its error.
func read(src interface{ Read(*rt.Snapshot) error }, s *rt.Snapshot) (err error) {
	defer recovered(&err, "the reading")
	return src.Read(s)
}

// put passes a snapshot to a sink; a panic counts as its error.
func put(sink Sink, s *rt.Snapshot) (err error) {
	defer recovered(&err, "writing the snapshot")
	return sink.Put(s)
}

// recovered is deferred: it sets err if there is a panic.
func recovered(err *error, what string) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s panicked: %v", what, p)
	}
}

// recoverEvents is deferred by the goroutine that receives the job's events. Without
// that goroutine the job is still read at each tick, and ends on the stop signal.
func (r *Recorder) recoverEvents() {
	if p := recover(); p != nil {
		r.event(rt.Event{Kind: "sensor", Name: "cgroup", Status: "failed", Detail: fmt.Sprintf("receiving the job's events panicked: %v", p)})
	}
}
