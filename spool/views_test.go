package spool

import (
	"net/url"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

// A file has all views before its first snapshot, for any program.
func TestViewsAreThereFromTheStart(t *testing.T) {
	w := mustCreate(t, Options{CommitRows: 1})
	m := newMachine(2, 1)
	m.withJob(1)
	for n := range 3 {
		c, err := openConn(w.Path(), url.Values{"mode": {"ro"}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		views, err := c.queryInt("SELECT count(*) FROM sqlite_schema WHERE type = 'view'")
		if err != nil || views != int64(strings.Count(schemaSQL(t), "CREATE VIEW ")) {
			t.Errorf("%d views, %v", views, err)
		}
		got, err := c.queryInt("SELECT count(*) FROM sample")
		if err != nil || got != int64(n) {
			t.Errorf("the view sample has %d rows, want %d, %v", got, n, err)
		}
		if _, err := c.query("SELECT * FROM step_total JOIN process_total JOIN energy_total JOIN gpu_reading"); err != nil {
			t.Error(err)
		}
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
}

// The table snapshot has what the kernel said, and not a difference.
func TestRowsHaveTheCounters(t *testing.T) {
	var list []*rt.Snapshot
	for i := range uint64(3) {
		s := &rt.Snapshot{Boot: 1e12 + int64(i)*1e9, Wall: start.UnixNano() + int64(i)*1e9}
		s.Job.Phase = rt.JobPresent
		s.Job.CPUUsage.Set(70_000_000 + 1000*i)
		s.Nets = []rt.NetReading{{Name: "eth0", RxBytes: rt.Some(1<<40 + i), TxBytes: rt.Some[uint64](7)}}
		list = append(list, s)
	}
	r := stored(t, Options{}, list)
	if got, want := view(t, r, "SELECT job_cpu_usage_us FROM snapshot"), "70000000\n70001000\n70002000\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := view(t, r, "SELECT seq, rx_bytes, tx_bytes FROM net_value"), "1 1099511627776 7\n2 1099511627777 7\n3 1099511627778 7\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
