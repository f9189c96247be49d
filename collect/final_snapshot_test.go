package collect

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

const ms = time.Millisecond

func usage(v uint64) rt.Opt[uint64] { return rt.Some(v) }

var none = rt.None[uint64]()

func newJob() *fakeJob {
	j := &fakeJob{events: make(chan JobEvent)}
	j.set(rt.JobPending, none, none)
	return j
}

func jobOptions(k *keeper, j *fakeJob) Options {
	return Options{
		FirstInterval: time.Second, FirstFor: time.Minute, Interval: 10 * time.Second,
		Job: j, Sinks: []Sink{k}, Ledger: k,
	}
}

// A short job: it appears, works 0.2 s, and its directories vanish one by one, its memory
// controller first.
func TestLastReadingOfAShortJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, j := &keeper{}, newJob()
		_, start := fakeClock()
		why := record(t, jobOptions(k, j), nil, func() {
			time.Sleep(40 * ms)
			j.set(rt.JobPresent, usage(100), usage(1<<20))
			j.events <- JobAppeared
			time.Sleep(200 * ms)
			j.set(rt.JobPresent, usage(204), usage(9<<20))
			j.events <- JobStepEnded // step_batch/task_0
			time.Sleep(5 * ms)
			j.set(rt.JobPresent, usage(205), none)
			j.events <- JobStepEnded // step_batch
			time.Sleep(5 * ms)
			j.set(rt.JobGone, none, none)
			j.events <- JobEnded
		})
		if why != rt.ReasonLast {
			t.Errorf("Run returned %v", why)
		}
		if d := cmp.Diff([]string{"first", "appeared", "last"}, k.reasons()); d != "" {
			t.Fatalf("reasons (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]float64{0, 0.04, 0.245}, k.seconds(start)); d != "" {
			t.Errorf("times (-want +got):\n%s", d)
		}
		last := k.rows[2].Job
		if last.Phase != rt.JobPresent || last.CPUUsage.Or(0) != 205 || last.MemPeak.Or(0) != 9<<20 {
			t.Errorf("the last reading is %+v, want 205 µs and a peak of 9 MiB", last)
		}
		if k.rows[0].Job.Phase != rt.JobPending {
			t.Errorf("the first reading's phase is %v", k.rows[0].Job.Phase)
		}
	})
}

// The resource manager has ended the job, but its cgroup is still there: the record is complete if no process is left.
func TestJobEndedButItsCgroupIsThere(t *testing.T) {
	for _, test := range []struct {
		name  string
		cause error
		pids  rt.Opt[uint64]
		want  rt.Reason
	}{
		{"empty", ErrJobEnded, rt.Some[uint64](0), rt.ReasonLast},
		{"removed, not known yet", ErrJobEnded, none, rt.ReasonLast},
		{"a process that cannot be killed", ErrJobEnded, rt.Some[uint64](1), rt.ReasonStop},
		{"between two steps", nil, rt.Some[uint64](0), rt.ReasonStop},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, j := &keeper{}, newJob()
				why := record(t, jobOptions(k, j), test.cause, func() {
					j.setReading(rt.JobReading{Phase: rt.JobPresent, CPUUsage: usage(100), MemPeak: usage(1 << 20), Pids: test.pids})
					j.events <- JobAppeared
				})
				last := k.rows[len(k.rows)-1]
				if why != test.want || last.Reason != test.want || last.Job.CPUUsage.Or(0) != 100 {
					t.Errorf("Run returned %v, the last reading is %v with %+v; want %v", why, last.Reason, last.Job, test.want)
				}
			})
		})
	}
}

// A tick after the end of a step supersedes what was read at that end.
func TestTickSupersedesTheCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, j := &keeper{}, newJob()
		_, start := fakeClock()
		record(t, jobOptions(k, j), nil, func() {
			j.set(rt.JobPresent, usage(1), usage(1))
			j.events <- JobAppeared
			time.Sleep(500 * ms)
			j.set(rt.JobPresent, usage(10), usage(10))
			j.events <- JobStepEnded
			time.Sleep(1500*ms - 1)
			j.set(rt.JobPresent, usage(20), usage(20))
			time.Sleep(900 * ms) // the tick at 2 s reads 20
			j.set(rt.JobGone, none, none)
			j.events <- JobEnded
		})
		n := len(k.rows)
		if last := k.rows[n-1]; last.Job.CPUUsage.Or(0) != 20 || last.Reason != rt.ReasonLast {
			t.Errorf("the last row is %+v", last.Job)
		}
		for i := 1; i < n; i++ {
			if k.rows[i].Boot <= k.rows[i-1].Boot && i > 1 {
				t.Errorf("row %d is not later than the one before it: %v", i, k.seconds(start))
			}
		}
	})
}

// The end is announced while a sink hangs: the job is still read, and the run does not end at the next tick only.
func TestSlowSinkDoesNotCostTheLastReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, j := &keeper{block: 300 * ms}, newJob()
		_, start := fakeClock()
		why := record(t, jobOptions(k, j), nil, func() {
			time.Sleep(10 * ms) // the first row is being written
			j.set(rt.JobPresent, usage(1), usage(1))
			j.events <- JobAppeared
			time.Sleep(50 * ms)
			j.set(rt.JobPresent, usage(42), usage(2))
			j.events <- JobStepEnded
			time.Sleep(5 * ms)
			j.set(rt.JobGone, none, none)
			j.events <- JobEnded
			time.Sleep(2 * time.Second)
		})
		if why != rt.ReasonLast {
			t.Errorf("Run returned %v", why)
		}
		last := k.rows[len(k.rows)-1].Job
		if last.CPUUsage.Or(0) != 42 || last.Phase != rt.JobPresent {
			t.Errorf("the last reading is %+v, want 42 µs", last)
		}
		times := k.seconds(start)
		if at := times[len(times)-1]; at != 0.6 { // the sink has written the two rows before
			t.Errorf("the last reading is of %v s, want 0.6 s", at)
		}
	})
}

// In cgroup v2 the emptied cgroup can still be read when its end is known.
func TestJobStillReadableAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, j := &keeper{}, newJob()
		_, start := fakeClock()
		record(t, jobOptions(k, j), nil, func() {
			j.set(rt.JobPresent, usage(1), usage(1))
			j.events <- JobAppeared
			time.Sleep(300 * ms)
			j.set(rt.JobPresent, usage(77), usage(2))
			j.events <- JobEnded
		})
		last := k.rows[len(k.rows)-1]
		if at := float64(last.Boot-start) / 1e9; last.Job.CPUUsage.Or(0) != 77 || at != 0.3 {
			t.Errorf("the last reading, at %v s, is %+v", at, last.Job)
		}
	})
}

func TestStopWithoutAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, j := &keeper{}, newJob()
		why := record(t, jobOptions(k, j), nil, func() { time.Sleep(500 * ms) })
		if d := cmp.Diff([]string{"first", "stop"}, k.reasons()); d != "" || why != rt.ReasonStop {
			t.Errorf("Run returned %v, reasons (-want +got):\n%s", why, d)
		}
		if p := k.rows[1].Job.Phase; p != rt.JobPending {
			t.Errorf("the last phase is %v", p)
		}
	})
}

// The stop signal arrives before the event of the job's end.
func TestStopAsTheJobGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, j := &keeper{}, newJob()
		why := record(t, jobOptions(k, j), nil, func() {
			j.set(rt.JobPresent, usage(5), usage(1))
			j.events <- JobAppeared
			time.Sleep(100 * ms)
			j.set(rt.JobGone, none, none)
		})
		last := k.rows[len(k.rows)-1]
		if why != rt.ReasonLast || last.Reason != rt.ReasonLast || last.Job.CPUUsage.Or(0) != 5 {
			t.Errorf("Run returned %v, the last row is %v %+v", why, last.Reason, last.Job)
		}
	})
}

func TestJobThatCannotBeReadIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, j := &keeper{}, newJob()
		j.err = errors.New("cpu.stat: input/output error")
		record(t, jobOptions(k, j), nil, func() { time.Sleep(2500 * ms) })
		if d := cmp.Diff([]string{"cgroup failed"}, k.eventsOf("sensor")); d != "" {
			t.Errorf("sensor events (-want +got):\n%s", d)
		}
	})
}

// A watcher that fails closes its channel: the run continues without events.
func TestWatcherThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, j := &keeper{}, newJob()
		close(j.events)
		record(t, jobOptions(k, j), nil, func() { time.Sleep(2500 * ms) })
		if len(k.rows) != 4 {
			t.Errorf("%d rows, want 4", len(k.rows))
		}
	})
}

// Without an extern step a job's cgroup is removed with each of its steps.
func TestJobThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, j := &keeper{}, newJob()
		o := jobOptions(k, j)
		o.Clock = fakeClock
		r, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		step := func(v uint64) {
			j.set(rt.JobPresent, usage(v), usage(v))
			j.events <- JobAppeared
			time.Sleep(100 * ms)
			j.set(rt.JobGone, usage(v), none)
			j.events <- JobEnded
		}
		for v := range uint64(2) {
			go func() { time.Sleep(50 * ms); step(v + 1) }()
			if why := r.Run(t.Context()); why != rt.ReasonLast {
				t.Errorf("Run returned %v", why)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if why := r.Run(ctx); why != rt.ReasonLast {
			t.Errorf("Run without the job returned %v", why)
		}
		if d := cmp.Diff([]string{"first", "appeared", "last", "appeared", "last"}, k.reasons()); d != "" {
			t.Errorf("reasons (-want +got):\n%s", d)
		}
		for i, row := range k.rows {
			if row.Seq != int64(i)+1 {
				t.Errorf("row %d has the number %d", i, row.Seq)
			}
		}
	})
}
