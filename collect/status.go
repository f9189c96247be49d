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

// status is what the ledger last heard of a source or a sink; empty is "ok",
// which goes without saying.
type status string

// teller is an error of a source that has a word of its own for what is wrong:
// "not supported", "busy".
type teller interface {
	error
	Status() string
}

func statusOf(err error) status {
	told, tells := errors.AsType[teller](err)
	switch {
	case err == nil:
		return ""
	case tells:
		return status(told.Status())
	case errors.Is(err, fs.ErrNotExist):
		return "absent"
	case errors.Is(err, fs.ErrPermission):
		return "denied"
	}
	return "failed"
}

// report tells the ledger when the status has changed.
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

// gap tells the ledger of readings that were not taken in time.
func (r *Recorder) gap(missed int, late time.Duration) {
	r.missed += missed
	r.event(rt.Event{
		Kind: "gap", Name: "schedule", Status: "missed",
		Detail: fmt.Sprintf("%d readings before snapshot %d were skipped: it was done %.3f s after it was due", missed, r.seq+1, late.Seconds()),
	})
}

// cost tells the ledger what the tracker itself has used (the whole process, since
// its start), how many readings there should be and are, and how its sensors are.
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

// sensors tells how each sensor is at the end: one that was well all the time is in
// no other event.
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
	if r.o.Lease != nil {
		add("node lease", r.leased)
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
	wall, _ := r.o.Clock()
	e.Time = time.Unix(0, wall).UTC()
	r.o.Ledger.Event(e)
}

// read reads a source; its panic is its failure.
func read(src interface{ Read(*rt.Snapshot) error }, s *rt.Snapshot) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the reading panicked: %v", p)
		}
	}()
	return src.Read(s)
}

// survive is deferred by the goroutine that receives the job's events: without it
// the job is read at each tick all the same, and ends when the tracker is told to.
func (r *Recorder) survive() {
	if p := recover(); p != nil {
		r.event(rt.Event{Kind: "sensor", Name: "cgroup", Status: "failed", Detail: fmt.Sprintf("receiving the job's events panicked: %v", p)})
	}
}

// put hands a snapshot to a sink; its panic is its failure.
func put(sink Sink, s *rt.Snapshot) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("writing the snapshot panicked: %v", p)
		}
	}()
	return sink.Put(s)
}
