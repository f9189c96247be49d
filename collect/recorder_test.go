package collect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

// keeper is a sink and a ledger that keeps everything.
type keeper struct {
	mu     sync.Mutex
	rows   []rt.Snapshot
	events []rt.Event
	block  time.Duration // what each Put takes
	fail   error
}

func (k *keeper) Put(s *rt.Snapshot) error {
	time.Sleep(k.block)
	k.mu.Lock()
	defer k.mu.Unlock()
	row := *s
	row.CPUs = slices.Clone(s.CPUs)
	k.rows = append(k.rows, row)
	return k.fail
}

func (k *keeper) Event(e rt.Event) { k.events = append(k.events, e) }

func (k *keeper) seconds(start int64) (at []float64) {
	for _, r := range k.rows {
		at = append(at, float64(r.Boot-start)/1e9)
	}
	return at
}

func (k *keeper) reasons() (why []string) {
	for _, r := range k.rows {
		why = append(why, r.Reason.String())
	}
	return why
}

func (k *keeper) eventsOf(kind string) (out []string) {
	for _, e := range k.events {
		if e.Kind == kind {
			out = append(out, e.Name+" "+e.Status)
		}
	}
	return out
}

// source is a Source made of a function.
type source struct {
	name string
	read func(*rt.Snapshot) error
}

func (s source) Name() string                 { return s.name }
func (s source) Read(snap *rt.Snapshot) error { return s.read(snap) }
func (s source) Close() error                 { return nil }

// fakeJob is a job with counters that follow the clock while it exists.
type fakeJob struct {
	events chan JobEvent
	mu     sync.Mutex
	job    rt.JobReading
	err    error
	reads  int
}

func (j *fakeJob) Events() <-chan JobEvent { return j.events }

func (j *fakeJob) Read(s *rt.Snapshot) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reads++
	s.Job = j.job
	return j.err
}

func (j *fakeJob) set(phase rt.JobPhase, usage, peak rt.Opt[uint64]) {
	j.setReading(rt.JobReading{Phase: phase, CPUUsage: usage, MemPeak: peak})
}

// setReading sets what the next Read returns; the recorder may read at the same time.
func (j *fakeJob) setReading(job rt.JobReading) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.job = job
}

func fakeClock() (wall, boot int64) {
	now := time.Now().UnixNano()
	return now, now - 1e9
}

// record runs a recorder in a bubble until script returns, then cancels it with cause.
func record(t *testing.T, o Options, cause error, script func()) rt.Reason {
	t.Helper()
	o.Clock = fakeClock
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	end := make(chan rt.Reason)
	go func() { end <- r.Run(ctx) }()
	script()
	synctest.Wait()
	select {
	case why := <-end:
		return why
	default:
	}
	cancel(cause)
	return <-end
}

func TestScheduleOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		_, start := fakeClock()
		why := record(t, Options{
			FirstInterval: time.Second, FirstFor: 3 * time.Second, Interval: 10 * time.Second,
			Sinks: []Sink{k}, Ledger: k,
		}, nil, func() { time.Sleep(25 * time.Second) })
		if why != rt.ReasonStop {
			t.Errorf("Run returned %v", why)
		}
		if d := cmp.Diff([]float64{0, 1, 2, 3, 13, 23, 25}, k.seconds(start)); d != "" {
			t.Errorf("times (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]string{"first", "tick", "tick", "tick", "tick", "tick", "stop"}, k.reasons()); d != "" {
			t.Errorf("reasons (-want +got):\n%s", d)
		}
		for i, row := range k.rows {
			if row.Seq != int64(i)+1 {
				t.Errorf("row %d has the number %d", i, row.Seq)
			}
		}
		if d := cmp.Diff([]string{"cost ok"}, k.eventsOf("tracker")); d != "" {
			t.Errorf("tracker events (-want +got):\n%s", d)
		}
	})
}

func TestScheduleDoesNotDriftAndSkipsMissedTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{block: 300 * time.Millisecond}
		_, start := fakeClock()
		slow := source{"cpu", func(s *rt.Snapshot) error {
			if s.Boot-start == 3e9 {
				time.Sleep(2300 * time.Millisecond)
			}
			return nil
		}}
		record(t, Options{Interval: time.Second, Sources: []Source{slow}, Sinks: []Sink{k}, Ledger: k}, nil,
			func() { time.Sleep(7500 * time.Millisecond) })
		want := []float64{0, 1, 2, 3, 6, 7, 7.5}
		if d := cmp.Diff(want, k.seconds(start)); d != "" {
			t.Errorf("times (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]string{"schedule missed"}, k.eventsOf("gap")); d != "" {
			t.Errorf("gaps (-want +got):\n%s", d)
		}
	})
}

func TestSourcesFailAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		var n int
		flaky := source{"flaky", func(s *rt.Snapshot) error {
			switch n++; n {
			case 2, 3:
				return fmt.Errorf("read it: %w", fs.ErrPermission)
			case 4:
				panic(fs.ErrInvalid) // a defect of a source must not end the tracker
			}
			s.Node.MemTotal.Set(1)
			return nil
		}}
		missing := source{"missing", func(*rt.Snapshot) error { return fs.ErrNotExist }}
		good := source{"good", func(s *rt.Snapshot) error { s.Node.Processes.Set(7); return nil }}
		record(t, Options{Interval: time.Second, Sources: []Source{flaky, missing, good}, Sinks: []Sink{k}, Ledger: k}, nil,
			func() { time.Sleep(4 * time.Second) })
		want := []string{"missing absent", "flaky denied", "flaky failed", "flaky ok"}
		if d := cmp.Diff(want, k.eventsOf("sensor")); d != "" {
			t.Errorf("sensor events (-want +got):\n%s", d)
		}
		for i, row := range k.rows {
			if row.Node.Processes.Or(0) != 7 {
				t.Errorf("row %d lacks what the good source read", i)
			}
			if failed := i >= 1 && i <= 3; failed == row.Node.MemTotal.Valid() {
				t.Errorf("row %d: the flaky source's value is %v", i, row.Node.MemTotal)
			}
		}
	})
}

func TestSinkThatFailsIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good := &keeper{fail: errors.New("no space left")}, &keeper{}
		record(t, Options{Interval: time.Second, Sinks: []Sink{bad, good}, Ledger: good}, nil,
			func() { time.Sleep(3500 * time.Millisecond) })
		if d := cmp.Diff([]string{"snapshot failed"}, good.eventsOf("spool")); d != "" {
			t.Errorf("spool events (-want +got):\n%s", d)
		}
		if len(good.rows) != 5 {
			t.Errorf("the other sink got %d rows, want 5", len(good.rows))
		}
	})
}

func TestCommandEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		why := record(t, Options{Interval: time.Second, Sinks: []Sink{k}}, ErrCommandEnded,
			func() { time.Sleep(1500 * time.Millisecond) })
		if why != rt.ReasonLast {
			t.Errorf("Run returned %v", why)
		}
		if d := cmp.Diff([]string{"first", "tick", "last"}, k.reasons()); d != "" {
			t.Errorf("reasons (-want +got):\n%s", d)
		}
	})
}

func TestNewRefusesIntervalsOfNothing(t *testing.T) {
	for _, o := range []Options{{}, {Interval: -1}, {Interval: 1, FirstFor: 1}} {
		if _, err := New(o); err == nil {
			t.Errorf("New(%+v) gives no error", o)
		}
	}
}

// The sources themselves are measured by BenchmarkSnapshot and their own tests.
func TestReadingAllocatesNothing(t *testing.T) {
	k := source{"cpu", func(s *rt.Snapshot) error {
		s.CPUs = append(s.CPUs, rt.CPUReading{CPU: 0}, rt.CPUReading{CPU: 1})
		return nil
	}}
	job := &fakeJob{events: make(chan JobEvent)}
	job.set(rt.JobPresent, rt.Some[uint64](1), rt.Some[uint64](2))
	r, err := New(Options{Interval: time.Second, Sources: []Source{k}, Job: job, Sinks: []Sink{nothing{}}})
	if err != nil {
		t.Fatal(err)
	}
	r.take(rt.ReasonFirst)
	if n := testing.AllocsPerRun(100, func() { r.take(rt.ReasonTick) }); n != 0 {
		t.Errorf("a reading makes %v allocations", n)
	}
}

type nothing struct{}

func (nothing) Put(*rt.Snapshot) error { return nil }

// busy is an error with a status of its own.
type busy struct{ error }

func (busy) Status() string { return "busy" }

// The status of an error is the status of the sensor in the ledger.
func TestStatusOfASourcesOwn(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want status
	}{
		{nil, ""}, {errors.New("x"), "failed"}, {fmt.Errorf("open: %w", fs.ErrPermission), "denied"}, {fs.ErrNotExist, "absent"},
		{fmt.Errorf("count: %w", busy{fs.ErrPermission}), "busy"},
	} {
		if got := statusOf(tt.err); got != tt.want {
			t.Errorf("%v is %q, want %q", tt.err, got, tt.want)
		}
	}
}
