//go:build lake

package lake

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// DuckDB, PyIceberg and Spark read all figures of 1,000 runs as rt-spool report --json has them.
func TestEnginesAgreeWithReports(t *testing.T) {
	const runs = 1000
	dir := filepath.Join(t.TempDir(), "lake")
	if keep := os.Getenv("RT_LAKE"); keep != "" { // for queries afterwards
		dir = keep
	}
	s := newTestSite(t, dir, "")
	for n := range runs {
		s.put(t, n, 21+n%100, true)
	}
	t.Logf("%s", output(t, s.program(t.Context(), "rt-lake")))
	temp := t.TempDir()
	report, jobs := filepath.Join(temp, "report.json"), filepath.Join(temp, "jobs.json")
	for path, args := range map[string][]string{report: {"report", "--json", strconv.Itoa(arrayJob)}, jobs: {"jobs", "--json"}} {
		if err := os.WriteFile(path, output(t, s.program(t.Context(), "rt-spool", args...)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, engine := range []string{"duckdb", "pyiceberg", "spark"} {
		t.Run(engine, func(t *testing.T) {
			python := os.Getenv("RT_LAKE_PYTHON")
			t.Logf("%s", output(t, exec.CommandContext(t.Context(), python, "testdata/compare.py", engine, dir, report, jobs, strconv.Itoa(runs))))
			answers := []string{"testdata/answers.py", engine, dir, "../../docs/lake.md"}
			if os.Getenv("RT_UPDATE") != "" {
				answers = append(answers, "update")
			}
			t.Logf("%s", output(t, exec.CommandContext(t.Context(), python, answers...)))
		})
	}
}
