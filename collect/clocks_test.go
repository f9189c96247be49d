package collect

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

// The wall clock is set forward and back by an hour, and the machine sleeps in between. No
// rate changes, the times of the run continue, and the ledger records each event.
func TestClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		began := time.Now()
		var set, slept time.Duration
		o := Options{
			Interval: 10 * time.Second, Sinks: []Sink{k}, Ledger: k,
			Clock: func() (int64, int64) {
				boot := time.Since(began) + slept + time.Hour
				return int64(boot + set + 1e6*time.Hour/1e3), int64(boot)
			},
			Sources: []Source{source{"net", func(s *rt.Snapshot) error {
				s.Nets = append(s.Nets, rt.NetReading{Name: "eth0", RxBytes: rt.Some(uint64(s.Boot) / 1e6)})
				return nil
			}}},
		}
		r, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		var last rt.Snapshot
		for _, step := range []func(){
			func() {}, func() { set = time.Hour }, func() {}, func() { set = -time.Hour }, func() { slept = 8 * time.Hour }, func() {},
			func() { set -= 900 * time.Millisecond }, // not recorded: NTP does so
		} {
			time.Sleep(10 * time.Second)
			step()
			r.take(rt.ReasonTick)
			cur := r.snap
			cur.Nets = append([]rt.NetReading(nil), cur.Nets...)
			if last.Seq > 0 {
				if passed := cur.Wall - last.Wall; passed <= 0 || passed != cur.Boot-last.Boot {
					t.Errorf("snapshot %d is %d ns after the one before, of which the boot clock counts %d", cur.Seq, passed, cur.Boot-last.Boot)
				}
				if v := rt.Derive(&last, &cur, rt.ScopeNode).Network[0].RxBytesPerSec; v.Or(0) < 999 || v.Or(0) > 1001 {
					t.Errorf("snapshot %d: a rate of %v, want 1000", cur.Seq, v)
				}
			}
			last = cur
		}
		var got []string
		for _, e := range k.events {
			got = append(got, e.Kind+" "+e.Name+" "+e.Status+": "+e.Detail)
		}
		want := []string{
			"tracker clock stepped: the wall clock was set by +3600.000 s before snapshot 2; the times of the run do not follow it",
			"tracker clock stepped: the wall clock was set by -7200.000 s before snapshot 4; the times of the run do not follow it",
			"gap suspend slept: the node slept for 28800.000 s before snapshot 5",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("the ledger (-want +got):\n%s", d)
		}
	})
}

// A job that stands still (scontrol suspend) is read on: its counters wait, and no reading
// is left out. When it goes on, its rates are the rates of before.
func TestSuspendedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, j := &keeper{}, newJob()
		began := time.Now()
		var frozen time.Duration
		ran := func() rt.Opt[uint64] { return usage(uint64((time.Since(began) - frozen) / time.Microsecond)) }
		o := jobOptions(k, j)
		o.FirstFor = 0
		o.Sources = []Source{source{"x", func(s *rt.Snapshot) error { return nil }}}
		record(t, o, nil, func() {
			j.set(rt.JobPresent, ran(), usage(1))
			j.events <- JobAppeared
			for i := range 20 {
				time.Sleep(10*time.Second - 1)
				if i >= 5 && i < 15 {
					frozen += 10 * time.Second
				}
				j.set(rt.JobPresent, ran(), usage(1))
				time.Sleep(time.Nanosecond)
			}
		})
		still, works := 0, 0
		for i := 2; i < len(k.rows)-1; i++ {
			v := rt.DeriveScalars(&k.rows[i-1], &k.rows[i], rt.ScopeJob).CPUUsage
			switch got, ok := v.Get(); {
			case ok && got == 0:
				still++
			case ok && got > 0.999 && got < 1.001:
				works++
			default:
				t.Errorf("row %d: %v CPUs", i, v)
			}
		}
		if still != 10 || works < 8 {
			t.Errorf("still for %d readings, at work for %d", still, works)
		}
		if gaps := k.eventsOf("gap"); len(gaps) != 0 {
			t.Errorf("gaps: %q", gaps)
		}
	})
}
