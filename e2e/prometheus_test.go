package e2e

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/nodestate"
	rtsite "github.com/resource-tracker/rt/site"
)

// promtool runs Prometheus' tool for rules and metrics.
func promtool(t *testing.T, input string, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	cmd := exec.Command(path, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestAlertRules runs the tests of the alerts, for example that a node which stops delivering raises one.
func TestAlertRules(t *testing.T) {
	promtool(t, "", "check", "rules", "--lint-fatal", "../contrib/prometheus/rt.rules.yml")
	promtool(t, "", "test", "rules", "../contrib/prometheus/rt.test.yml")
}

// TestMetricsOfANode checks the metrics of a node of which everything is known, and that the alerts use no
// others.
func TestMetricsOfANode(t *testing.T) {
	one, now := rt.Some[int64](1), rt.Some(time.Unix(1_800_000_000, 0))
	var text strings.Builder
	err := nodestate.Print(&text, nodestate.Metrics(rtsite.NodeState{
		Version: "1", Schema: one, Trackers: one, UndeliveredRuns: one, UndeliveredBytes: one, OldestUndelivered: now, Unreadable: one,
		LastDrain: now, LastSuccess: now, FailedDrains: one, Delivered: one, Lost: one, HookFailures: one, BreakerUntil: now,
		HooksDisabled: rt.Some(true), SpoolBytes: one, SpoolLimit: one, DiskBytes: one, DiskFree: one,
	}))
	if err != nil {
		t.Fatal(err)
	}
	promtool(t, text.String(), "check", "metrics")
	rules, err := os.ReadFile("../contrib/prometheus/rt.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\brt_[a-z_]+\b`).FindAllString(string(rules), -1)
	if len(names) < 10 {
		t.Errorf("the rules have %d metrics", len(names))
	}
	for _, name := range names {
		if !strings.Contains(text.String(), "\n"+name+" ") {
			t.Errorf("the rules use %s, which rt-spool metrics does not write", name)
		}
	}
}
