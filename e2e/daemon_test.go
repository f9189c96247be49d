//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// daemonCase is a job of TestDaemonBytes. In its script F is the prefix of a file name, W the
// workload, and d a command that writes a number of MiB.
type daemonCase struct {
	name, script string
	written      int64 // MiB
	steps        int   // of srun
	isMissing    bool  // bytes may be missing, and then the ledger says so
}

// TestDaemonBytes runs jobs with a daemon. No process of the job waits for the daemon, so its bytes
// may be missing; then the ledger and the report say so. The bytes of a job without a daemon are
// complete. All bytes are shown as a lower bound, because a daemon may leave no trace.
func TestDaemonBytes(t *testing.T) {
	s := newSite(t, diskDir(t))
	c := lab(t, s)
	for _, k := range []daemonCase{
		{"daemon", `( (setsid sh -c "dd if=/dev/zero of=F-d bs=1M count=200 conv=fsync 2>/dev/null; W --cpu 0.4; touch F-end" >/dev/null 2>&1 &) ); until [ -e F-end ]; do sleep 0.2; done; sleep 1`, 200, 0, true},
		{"waited", `for i in 1 2 3; do d 50 F-$i; done; for i in $(seq 100); do true | cat | cat; done; sleep 1`, 150, 0, false},
		{"steps", `for i in 1 2 3 4 5 6; do srun dd if=/dev/zero of=F-$i bs=1M count=20 conv=fsync; done`, 120, 6, false},
		{"forking", `for i in $(seq 1500); do /bin/true; done`, 0, 0, false},
	} {
		t.Run(k.name, func(t *testing.T) {
			// On a busy node a slurmstepd may end before its final reading, or a step before the tracker
			// looks. Such a job shows nothing about daemons, so it runs again.
			for range 10 {
				if isLate := runDaemon(t, c, s, k); !isLate {
					return
				}
			}
			t.Error("each time a slurmstepd ended before its final reading, or a step was not seen")
		})
	}
}

// runDaemon runs a job and checks the bytes in its run. It reports whether a slurmstepd ended
// before its final reading, or a step was not seen.
func runDaemon(t *testing.T, c *cluster, s *site, k daemonCase) (isLate bool) {
	t.Helper()
	const dd = `d() { dd if=/dev/zero of="$2" bs=1M count="$1" conv=fsync 2>/dev/null; }; `
	script := strings.NewReplacer("F", s.path("out", "data-$SLURM_JOB_ID"), "W", s.workload()).Replace(dd + k.script)
	id := c.submit(t, s, script, "-n1", "--mem=200", "-w", c.nodes[0], "-J", k.name)
	c.wait(t, id)
	settle(t, s.path("spool"))
	got := readOutputs(t, s, onlyRun(t, s, id, c.nodes[0]))
	ledger := got.ledger("bytes")
	t.Logf("%s", got)
	isWhole := got.report.IO.WriteBytes >= k.written<<20
	isNoticed := strings.Contains(ledger, "processes that were not seen") || strings.Contains(ledger, "no process of the job waited for")
	isLateStepd := strings.Contains(ledger, "final reading") // the report leaves the note out if only the extern step is late
	isUnseen := len(got.report.Steps) < 2+k.steps            // the two are extern and batch
	if isLateStepd || isUnseen {
		return true
	}
	switch {
	case isNoticed && !k.isMissing:
		t.Errorf("no bytes are missing, and the ledger has %q", ledger)
	case !isNoticed && !isWhole:
		t.Errorf("%d bytes written, want %d MiB; the ledger has %q", got.report.IO.WriteBytes, k.written, ledger)
	}
	hasNote := strings.Contains(strings.Join(strings.Fields(got.text), " "), "the bytes read and written are a lower bound")
	if hasNote != (ledger != "") || got.report.IO.Mark == "" {
		t.Errorf("mark: %q; the ledger has %q, the report\n%s", got.report.IO.Mark, ledger, got.text)
	}
	got.agreeReport(t)
	return false
}
