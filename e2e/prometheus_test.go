package e2e

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	rtsite "github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/api"
	"github.com/resource-tracker/rt/site/registry"
	"github.com/resource-tracker/rt/upload/drain"
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

// nodeMetrics returns the metrics of a node with everything known.
func nodeMetrics(t *testing.T) string {
	t.Helper()
	one, now := rt.Some[int64](1), rt.Some(time.Unix(1_800_000_000, 0))
	var text strings.Builder
	err := drain.PrintMetrics(&text, drain.NodeMetrics(rtsite.NodeState{
		Version: "1", Schema: one, Trackers: one, UndeliveredRuns: one, UndeliveredBytes: one, OldestUndelivered: now, Unreadable: one,
		LastDrain: now, LastSuccess: now, FailedDrains: one, Delivered: one, Lost: one, HookFailures: one, BreakerUntil: now,
		HooksDisabled: rt.Some(true), SpoolBytes: one, SpoolLimit: one, DiskBytes: one, DiskFree: one,
	}))
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestMetrics checks the metrics of a node and of a service, and that the alerts use no others.
func TestMetrics(t *testing.T) {
	promtool(t, nodeMetrics(t), "check", "metrics")
	promtool(t, siteMetrics(t), "check", "metrics")
	rules, err := os.ReadFile("../contrib/prometheus/rt.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	checkNames(t, "rt.rules.yml", string(rules), nodeMetrics(t)+siteMetrics(t))
}

// siteMetrics returns the metrics of a service that has answered a request.
func siteMetrics(t *testing.T) string {
	t.Helper()
	m := api.NewMetrics()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	m.Counting(http.NotFoundHandler(), func(*http.Request) string { return "other" }).ServeHTTP(httptest.NewRecorder(), r)
	_, _ = m.CountingStore(nowhere{}).Get(t.Context(), "a")
	empty, err := registry.Open(t.Context(), filepath.Join(t.TempDir(), "registry.db"), registry.Config{})
	if err == nil {
		err = empty.Lake.Done(t.Context(), time.Unix(1, 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	m.Answering(empty, true).ServeHTTP(w, r)
	if err := empty.Close(); err != nil {
		t.Error(err)
	}
	return w.Body.String()
}

// nowhere is an object store without objects.
type nowhere struct{ rtsite.ObjectStore }

func (nowhere) Get(context.Context, string) (io.ReadCloser, error) { return nil, rtsite.ErrNotFound }

// checkNames checks that a file uses no metrics of rt that do not exist.
func checkNames(t *testing.T, file, text, exposition string) {
	t.Helper()
	names := regexp.MustCompile(`\brt_[a-z_]+\b`).FindAllString(text, -1)
	if len(names) < 10 {
		t.Errorf("%s has %d metrics", file, len(names))
	}
	for _, name := range names {
		isThere := strings.Contains(exposition, "\n"+name+" ") || strings.Contains(exposition, "\n"+name+"{")
		if !isThere {
			t.Errorf("%s uses %s, which neither rt-spool metrics nor rt-site writes", file, name)
		}
	}
}
