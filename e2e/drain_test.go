//go:build e2e

package e2e

import (
	"bytes"
	"database/sql"
	"encoding/csv"
	"fmt"
	"reflect"
	"strconv"
	"testing"
)

// runDrain delivers a spool to a new receiver and compares what arrived with the spool.
func runDrain(t *testing.T, s *site, spool string) {
	sent := runs(t, spool)
	if len(sent) == 0 {
		t.Fatal("the spool is empty")
	}
	r := serve(t, s, spool)
	if out, status := s.rtSpool(t, "drain"); status != 0 || out != "" {
		t.Fatalf("drain ended with %d and printed %q; want no output", status, out)
	}
	got := r.runs(t)
	if len(got) != len(sent) {
		t.Errorf("the receiver holds %d runs, want %d", len(got), len(sent))
	}
	byName := map[string]received{}
	for _, run := range got {
		byName[run.Metadata.ExternalRunID] = run
	}
	for _, run := range sent {
		there, ok := byName[run.ExternalID]
		if !ok {
			t.Errorf("%s (%s) did not arrive", run.path, run.ExternalID)
			continue
		}
		checkDelivered(t, r, run, there)
	}
	if out, status := s.rtSpool(t, "drain"); status != 0 || out != "" {
		t.Errorf("the second drain ended with %d and printed %q", status, out)
	}
	if again := r.runs(t); !reflect.DeepEqual(again, got) {
		t.Errorf("the second drain has changed what the receiver holds:\n%+v\n%+v", got, again)
	}
	for _, run := range runs(t, spool) {
		if run.State != "delivered" {
			t.Errorf("%s is %s after drain", run.path, run.State)
		}
	}
}

// checkDelivered compares a run at the receiver with its spool file. The run has one row for each interval. The sums
// over the rows equal the last snapshot's counters minus the first snapshot's.
func checkDelivered(t *testing.T, r *receiver, run spooled, there received) {
	t.Helper()
	want := map[string]string{"finished": "finished", "failed": "failed", "oom": "failed"}[run.Outcome]
	if want != "" && there.Status != want {
		t.Errorf("%s: the receiver has the status %s for the outcome %s", run.path, there.Status, run.Outcome)
	}
	if there.Status == "running" {
		t.Errorf("%s: the receiver does not know that the run has ended", run.path)
	}
	rows, err := csv.NewReader(bytes.NewReader(r.get(t, "/runs/"+there.ID+"/data"))).ReadAll()
	if err != nil || len(rows) == 0 {
		t.Errorf("%s: the receiver's CSV: %d lines, %v", run.path, len(rows), err)
		return
	}
	if int64(len(rows)-1) != run.snapshots-1 || there.Rows != run.snapshots-1 {
		t.Errorf("%s: %d rows (the receiver counts %d) for the %d intervals of %d snapshots", run.path, len(rows)-1, there.Rows, run.snapshots-1, run.snapshots)
	}
	for column, want := range counters(t, run.path) {
		checkSum(t, run.path, rows, column, want)
	}
}

// counter is what a run has used of a resource, in a unit that is an integer.
type counter struct {
	total sql.NullInt64
	scale float64 // per unit of the CSV
}

// counters returns by how much the counters behind the columns of the CSV have grown. A job without a cgroup yet has
// used nothing. The kernel's microseconds are truncated to the column's milliseconds at each reading. Without an io
// controller the job's bytes are the sum over its processes.
func counters(t *testing.T, path string) map[string]counter {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	out := map[string]counter{}
	for column, q := range map[string]struct {
		sql   string
		scale float64
	}{
		"utime":            {"SELECT max(job_cpu_user_us) / 1000 FROM snapshot", 1000},
		"stime":            {"SELECT max(job_cpu_system_us) / 1000 FROM snapshot", 1000},
		"disk_read_bytes":  {"SELECT coalesce(max(job_io_read_bytes), max(job_proc_read_bytes)) FROM snapshot", 1},
		"disk_write_bytes": {"SELECT coalesce(max(job_io_write_bytes), max(job_proc_write_bytes)) FROM snapshot", 1},
		"net_recv_bytes":   {"SELECT max(node_net_rx_bytes) - min(node_net_rx_bytes) FROM snapshot", 1},
		"net_sent_bytes":   {"SELECT max(node_net_tx_bytes) - min(node_net_tx_bytes) FROM snapshot", 1},
	} {
		c := counter{scale: q.scale}
		if err := db.QueryRow(q.sql).Scan(&c.total); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out[column] = c
	}
	return out
}

func checkSum(t *testing.T, path string, rows [][]string, column string, want counter) {
	t.Helper()
	at := -1
	for i, name := range rows[0] {
		if name == column || name == "process_"+column || (name == "system_"+column && (column == "net_recv_bytes" || column == "net_sent_bytes")) {
			at = i
		}
	}
	if at < 0 {
		t.Errorf("%s: no column %s in %v", path, column, rows[0])
		return
	}
	var sum float64
	filled := false
	for _, row := range rows[1:] {
		if row[at] == "" {
			continue
		}
		v, err := strconv.ParseFloat(row[at], 64)
		if err != nil {
			t.Errorf("%s: %s: %v", path, column, err)
			return
		}
		sum, filled = sum+v*want.scale, true
	}
	got := fmt.Sprintf("%.0f", sum)
	switch {
	case !want.total.Valid && filled:
		t.Errorf("%s: column %s has values, want none", path, column)
	case want.total.Valid && got != strconv.FormatInt(want.total.Int64, 10):
		t.Errorf("%s: the rows of %s add up to %s, the counter grew by %d", path, column, got, want.total.Int64)
	}
}
