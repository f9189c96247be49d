//go:build e2e

package e2e

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/mattn/go-sqlite3"
)

// spooled is a run as any SQLite client can read it from its file.
type spooled struct {
	path string

	Cluster, Node, User, Account, Partition, NodeList, JobName string
	State, Outcome, Source, ExternalID                         string
	JobID, UID, NumNodes                                       int64
	ArrayJob, ArrayTask, HetJob, HetOffset                     sql.NullInt64
	ExitCode, ExitSignal, AllocCPUs                            sql.NullInt64

	snapshots           int64
	firstReason, ending int64 // ending: number of readings with the reason "last"
	stopping            int64 // with the reason "stop"
	cpu                 sql.NullInt64
	peakKiB             sql.NullInt64
}

// readRun reads a spool file with SQL alone.
func readRun(t *testing.T, path string) spooled {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r := spooled{path: path}
	err = db.QueryRow(`SELECT cluster, node, ifnull(user, ''), ifnull(account, ''), ifnull(partition, ''), ifnull(node_list, ''),
		ifnull(job_name, ''), state, ifnull(outcome, ''), ifnull(outcome_source, ''), ifnull(external_run_id, ''),
		job_id, uid, num_nodes, array_job_id, array_task_id, het_job_id, het_job_offset, exit_code, exit_signal, alloc_cpus
		FROM run`).Scan(&r.Cluster, &r.Node, &r.User, &r.Account, &r.Partition, &r.NodeList,
		&r.JobName, &r.State, &r.Outcome, &r.Source, &r.ExternalID,
		&r.JobID, &r.UID, &r.NumNodes, &r.ArrayJob, &r.ArrayTask, &r.HetJob, &r.HetOffset, &r.ExitCode, &r.ExitSignal, &r.AllocCPUs)
	if err != nil {
		t.Fatalf("%s: table run: %v", path, err)
	}
	err = db.QueryRow(`SELECT count(*), ifnull(min(iif(seq = 1, reason, NULL)), -1), sum(reason = 3), sum(reason = 4),
		max(job_cpu_usage_us), max(job_mem_peak_kib) FROM snapshot`).Scan(
		&r.snapshots, &r.firstReason, &r.ending, &r.stopping, &r.cpu, &r.peakKiB)
	if err != nil {
		t.Fatalf("%s: table snapshot: %v", path, err)
	}
	return r
}

// runs reads every spool file below a directory; every run must be closed.
func runs(t *testing.T, spool string) []spooled { return runsNamed(t, spool, "*.db") }

// runsOf reads the runs of a job.
func runsOf(t *testing.T, spool string, job int64) []spooled {
	return runsNamed(t, spool, fmt.Sprintf("job-%d-*.db", job))
}

func runsNamed(t *testing.T, spool, pattern string) []spooled {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(spool, pattern))
	if err != nil {
		t.Fatal(err)
	}
	var all []spooled
	for _, f := range files {
		all = append(all, readRun(t, f))
	}
	return all
}

// settle waits until no tracker of a job, or none at all, writes to the spool.
func settle(t *testing.T, spool string, job ...int64) {
	t.Helper()
	pattern := "*.db-wal"
	if len(job) > 0 {
		pattern = fmt.Sprintf("job-%d-%s", job[0], pattern)
	}
	until(t, "trackers to close their spool files", func() bool {
		open, err := filepath.Glob(filepath.Join(spool, pattern))
		return err == nil && len(open) == 0
	})
}

func describe(all []spooled) string {
	var b strings.Builder
	for _, r := range all {
		b.WriteString(filepath.Base(r.path) + " (" + r.State + ", " + r.Outcome + ") ")
	}
	return b.String()
}

// count returns the number of committed snapshots, 0 if it cannot be read.
func count(path string) (n int64) {
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro")
	if err != nil {
		return 0
	}
	defer db.Close()
	if db.QueryRow("SELECT count(*) FROM snapshot").Scan(&n) != nil {
		return 0
	}
	return n
}
