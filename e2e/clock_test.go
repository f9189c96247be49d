//go:build e2e

package e2e

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// runClock sets the clock of the machine, which is virtual, one hour forward and back while
// a job runs. The intervals and rates of the job do not change, and the ledger reports both
// steps with their length.
func runClock(t *testing.T, c *cluster, s *site) {
	release := s.path("out", "release-clock")
	id := c.submit(t, s, heldJob(s, release), "-n1", "--mem=60", "--time=600", "-w", c.nodes[0], "-J", "timeless")
	path := c.waitForReadings(t, s, id, 3)
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		stepClock(t, by)
		before := count(path)
		until(t, "readings under another clock", func() bool { return count(path) >= before+3 })
	}
	command(t, "touch", release)
	if j := c.wait(t, id)[id]; j["JobState"] != "COMPLETED" {
		t.Errorf("the job ended as %s", j["JobState"])
	}
	settle(t, s.path("spool"))
	r := onlyRun(t, s, id, c.nodes[0])
	possible(t, r)
	if n := query(t, r.path, "SELECT count(*) FROM sample WHERE seconds > 1800"); n != "0" {
		t.Errorf("%s: %s intervals of more than half an hour", r.path, n)
	}
	if n := query(t, r.path, "SELECT count(*) FROM (SELECT wall_us - lag(wall_us) OVER (ORDER BY seq) AS passed FROM snapshot) WHERE passed <= 0"); n != "0" {
		t.Errorf("%s: %s snapshots are not later than the one before", r.path, n)
	}
	if n := query(t, r.path, "SELECT count(*) FROM run WHERE end_us - start_us BETWEEN 0 AND 1800 * 1000000"); n != "1" {
		t.Errorf("%s: the run ends before it starts, or lasts longer than half an hour", r.path)
	}
	e := expected{jobID: id, node: c.nodes[0], truth: id}
	if apart := checkFigures(t, s, e, r); apart != "" {
		t.Log(apart) // this machine charges too much CPU time, see cluster.tries; the clock does not matter
	}
	logged := query(t, r.path, "SELECT group_concat(status || ' ' || detail, '; ') FROM event WHERE kind = 'tracker' AND name = 'clock'")
	steps := clockSteps.FindAllStringSubmatch(logged, -1)
	if len(steps) != 2 || !anHour(steps[0][1], 3600) || !anHour(steps[1][1], -3600) {
		t.Errorf("%s: the ledger has these clock events: %q", r.path, logged)
	}
	t.Logf("%d snapshots; the ledger: %s", r.snapshots, logged)
}

var clockSteps = regexp.MustCompile(`stepped the wall clock was set by ([+-][0-9.]+) s`)

// anHour reports whether a logged step is from runClock. The step includes the time between reading and setting the
// clock: a few milliseconds, or longer if the host did not run the guest.
func anHour(logged string, seconds float64) bool {
	s, err := strconv.ParseFloat(logged, 64)
	return err == nil && math.Abs(s-seconds) < 1
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
