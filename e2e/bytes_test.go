//go:build e2e

package e2e

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
)

// bytesCase is a job that writes and reads a known number of MiB.
type bytesCase struct {
	name   string
	mib    int64 // written
	read   int64
	args   []string
	script string // F is the prefix of a file name, D a command that writes a number of MiB
}

// TestBytes compares the bytes that a job's processes wrote and read with the bytes that they should have written and
// read. The io controller is off in Slurm's cgroups, so the source is /proc/<pid>/io. Most of these processes end
// long before a second reading.
func TestBytes(t *testing.T) {
	s := newSite(t, diskDir(t))
	runBytes(t, lab(t, s), s)
}

// runBytes runs the jobs one after another and compares the spool with them.
func runBytes(t *testing.T, c *cluster, s *site) {
	// d COUNT FILE: writes COUNT MiB to a file and syncs it to the disk.
	dd := `d() { dd if=/dev/zero of="$2" bs=1M count="$1" conv=fsync 2>/dev/null; }; `
	out := s.path("out", "data-$SLURM_JOB_ID")
	cases := []bytesCase{
		{name: "one-process", mib: 96, args: []string{"-n1"}, script: `exec dd if=/dev/zero of=F bs=1M count=96 conv=fsync`},
		{name: "200-short-processes", mib: 200, args: []string{"-n1"}, script: dd + `for i in $(seq 200); do d 1 F-$((i % 7)); done; sleep 4`},
		{name: "steps", mib: 3 * 16, args: []string{"-n1"}, script: `for i in 1 2 3; do srun dd if=/dev/zero of=F-$i bs=1M count=16 conv=fsync; done`},
		{name: "8-unequal-tasks", mib: 4 * (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8), args: []string{"-n8", "--overcommit", "-N1"},
			script: `srun --overcommit -n8 bash -c 'dd if=/dev/zero of=F-$SLURM_PROCID bs=1M count=$((4 * SLURM_PROCID + 4)) conv=fsync'`},
		{name: "reading-steps", mib: 48, read: 2 * 3 * 48, args: []string{"-n2", "--overcommit", "-N1"},
			script: dd + `d 48 F; for i in 1 2 3; do srun --overcommit -n2 dd if=F of=/dev/null bs=1M iflag=direct; done`},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			// A slurmstepd exists for a few milliseconds after its tasks, and on a busy
			// machine it may be gone before the tracker gets a CPU. Then the ledger reports
			// that the bytes are a lower bound, and the job is run again. On one slow CPU a
			// second run does not help.
			incomplete := ""
			for try := 0; try == 0 || incomplete != "" && !c.oneByOne && try < 5; try++ {
				id := c.submit(t, s, strings.ReplaceAll(k.script, "F", out), append(k.args, "--mem=200", "--job-name="+k.name)...)
				c.wait(t, id)
				settle(t, s.path("spool"))
				incomplete = checkBytes(t, s, k, id)
			}
			if incomplete != "" && !c.oneByOne {
				t.Errorf("the ledger reports each time: %s", incomplete)
			}
		})
	}
	c.healthy(t)
	for _, line := range s.logLines(t) {
		t.Errorf("unexpected log line: %s", line)
	}
}

// checkBytes returns the ledger's entry if the bytes are a lower bound, else an empty
// string.
func checkBytes(t *testing.T, s *site, k bytesCase, id int64) (incomplete string) {
	t.Helper()
	mine := runsOf(t, s.path("spool"), id)
	if len(mine) != 1 {
		t.Fatalf("job %d has %d runs: %s", id, len(mine), describe(mine))
	}
	run := mine[0]
	db, err := sql.Open("sqlite3", "file:"+run.path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var written, read, switches, seen sql.NullInt64
	var comms, guessed sql.NullString
	err = db.QueryRow(`SELECT max(job_proc_write_bytes), max(job_proc_read_bytes), max(job_voluntary_switches) FROM snapshot`).Scan(&written, &read, &switches)
	if err == nil {
		err = db.QueryRow(`SELECT group_concat(detail, '; ') FROM event WHERE kind = 'job' AND name = 'bytes'`).Scan(&guessed)
	}
	if err == nil {
		err = db.QueryRow(`SELECT count(*), group_concat(DISTINCT step || '.' || ifnull(task, '-') || ' ' || comm) FROM process`).Scan(&seen, &comms)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		verb      string
		got, want int64
	}{{"written", written.Int64, k.mib << 20}, {"read", read.Int64, k.read << 20}} {
		slack := x.want / 100
		if x.verb == "read" && k.read == 0 {
			continue
		}
		if off := x.got - x.want; off < -slack && !guessed.Valid || off > slack {
			t.Errorf("%d bytes %s, want %d: off by %+.2f %%", x.got, x.verb, x.want, 100*float64(off)/float64(x.want))
		}
	}
	t.Logf("%d bytes written of %d MiB, %d read of %d MiB, %d snapshots, %d switches, processes: %s",
		written.Int64, k.mib, read.Int64, k.read, run.snapshots, switches.Int64, comms.String)
	// The other jobs may end before the second reading.
	if k.name == "200-short-processes" && (seen.Int64 == 0 || switches.Int64 == 0 || !strings.Contains(comms.String, "batch.0 slurm_script")) {
		t.Errorf("%d processes were shown (%s), %d voluntary switches", seen.Int64, comms.String, switches.Int64)
	}
	if out := s.output(t, id); strings.Contains(out, "rror") {
		t.Errorf("the job printed %s", fmt.Sprintf("%.300s", out))
	}
	return guessed.String
}
