//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// TestDaemonBytes runs jobs with a daemon. No process of the job collects its bytes. If
// they are missing, the ledger and the report say that the figures are a lower bound. A job
// without one has exact bytes.
func TestDaemonBytes(t *testing.T) {
	s := newSite(t, diskDir(t))
	c := lab(t, s)
	out := s.path("out", "data-$SLURM_JOB_ID")
	const dd = `d() { dd if=/dev/zero of="$2" bs=1M count="$1" conv=fsync 2>/dev/null; }; `
	for name, tt := range map[string]struct {
		script  string
		atLeast bool
	}{ // F is the prefix of a file name, W the workload
		"daemon":  {dd + `( (setsid sh -c "dd if=/dev/zero of=F-d bs=1M count=200 conv=fsync 2>/dev/null; W --cpu 0.4; touch F-end" >/dev/null 2>&1 &) ); until [ -e F-end ]; do sleep 0.2; done; sleep 1`, true},
		"waited":  {dd + `for i in 1 2 3; do d 50 F-$i; done; for i in $(seq 100); do true | cat | cat; done; sleep 1`, false},
		"steps":   {`for i in 1 2 3 4 5 6; do srun dd if=/dev/zero of=F-$i bs=1M count=20 conv=fsync; done`, false},
		"forking": {`for i in $(seq 1500); do /bin/true; done`, false},
	} {
		t.Run(name, func(t *testing.T) {
			id := c.submit(t, s, strings.NewReplacer("F", out, "W", s.workload()).Replace(tt.script), "-n1", "--mem=200", "-w", c.nodes[0], "-J", name)
			c.wait(t, id)
			settle(t, s.path("spool"))
			r := onlyRun(t, s, id, c.nodes[0])
			ledger := query(t, r.path, "SELECT ifnull(group_concat(detail, '; '), '') FROM event WHERE kind = 'job' AND name = 'bytes'")
			isLate := strings.Contains(ledger, "final reading") // on a busy node; it proves nothing here
			t.Logf("%s written, CPU %s; ledger %q", query(t, r.path, "SELECT ifnull(max(job_proc_write_bytes), '-') FROM snapshot"),
				query(t, r.path, "SELECT max(job_cpu_usage_us) FROM snapshot"), ledger)
			isExact := tt.atLeast && query(t, r.path, "SELECT max(job_proc_write_bytes) >= 200 << 20 FROM snapshot") == "1" // a reading came after the last write
			if isBound := ledger != ""; isBound != tt.atLeast && !isLate && !isExact {
				t.Errorf("the ledger has %q, want a lower bound: %v", ledger, tt.atLeast)
			}
			text, rc := s.rtSpool(t, "report", r.path)
			if rc != 0 || strings.Contains(text, "written at least") != (ledger != "") {
				t.Errorf("the report, with status %d:\n%s", rc, text)
			}
		})
	}
}
