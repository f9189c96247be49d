//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runClock sets the clock of the machine, a virtual one, an hour on and back again
// while a job runs: its intervals and rates are as if nothing had happened, and both
// steps are told with their length.
func runClock(t *testing.T, c *cluster, s *site) {
	release := s.path("out", "release-clock")
	id := c.submit(t, s, heldJob(s, release), "-n1", "--mem=60", "--time=600", "-w", c.nodes[0], "-J", "timeless")
	path := c.waitForReadings(t, s, id, 3)
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		stepClock(t, by)
		before := count(path)
		until(t, time.Minute, "readings under another clock", func() bool { return count(path) >= before+3 })
	}
	command(t, "touch", release)
	if j := c.wait(t, id, 3*time.Minute)[id]; j["JobState"] != "COMPLETED" {
		t.Errorf("the job ended %s", j["JobState"])
	}
	settle(t, s.path("spool"))
	r := onlyRun(t, s, id, c.nodes[0])
	possible(t, r)
	if n := query(t, r.path, "SELECT count(*) FROM sample WHERE seconds > 60"); n != "0" {
		t.Errorf("%s: %s intervals of more than a minute", r.path, n)
	}
	e := expected{jobID: id, node: c.nodes[0], truth: id}
	if apart := checkFigures(t, s, e, r); apart != "" {
		t.Error(apart)
	}
	told := query(t, r.path, "SELECT group_concat(status || ' ' || detail, '; ') FROM event WHERE kind = 'tracker' AND name = 'clock'")
	if strings.Count(told, "stepped ") != 2 || !strings.Contains(told, "+3600.") || !strings.Contains(told, "-3600.") {
		t.Errorf("%s tells of the clock: %q", r.path, told)
	}
	t.Logf("%d snapshots; the ledger: %s", r.snapshots, told)
}

// stepClock sets the machine's clock. It runs in the guest alone.
func stepClock(t *testing.T, by time.Duration) {
	t.Helper()
	now := time.Now().Add(by)
	tv := syscall.NsecToTimeval(now.UnixNano())
	if err := syscall.Settimeofday(&tv); err != nil {
		t.Fatal(fmt.Errorf("set the clock of the guest by %s: %w", by, err))
	}
}
