package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/postgres"
	rtsite "github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
)

// dashboard is what the tests need of a dashboard of Grafana.
type dashboard struct {
	Templating struct {
		List []struct {
			Name, Type string
			Query      any
			AllValue   string
		}
	}
	Panels []struct {
		Title   string
		Targets []struct{ Expr, RawSQL, Format, QueryText, QueryType string }
	}
}

func readDashboard(t *testing.T, name string) (d dashboard, text string) {
	t.Helper()
	b, err := os.ReadFile("../contrib/grafana/" + name)
	if err == nil {
		err = json.Unmarshal(b, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d, string(b)
}

// Prometheus accepts each query of the dashboard for operators, and each metric exists.
func TestDashboardOfOperators(t *testing.T) {
	d, text := readDashboard(t, "rt-operators.json")
	checkNames(t, "rt-operators.json", text, nodeMetrics(t)+siteMetrics(t))
	rules := strings.Builder{}
	rules.WriteString("groups:\n  - name: panels\n    rules:\n")
	n := 0
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			n++
			expr := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$service", ".*").Replace(q.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("%s: %s has a variable that is not known", p.Title, q.Expr)
			}
			fmt.Fprintf(&rules, "      - {record: 'panel:%d', expr: '%s'}\n", n, strings.ReplaceAll(expr, "'", "''"))
		}
	}
	if n < 20 {
		t.Errorf("the dashboard has %d queries", n)
	}
	file := filepath.Join(t.TempDir(), "panels.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "rules", file)
}

// PostgreSQL answers each query of the dashboard of jobs, for a user that can read the tables job and node only.
func TestDashboardOfJobs(t *testing.T) {
	if testing.Short() {
		t.Skip("in make check: PostgreSQL")
	}
	server, err := postgres.Start("fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	fillDashboard(t, server.URL("postgres"))
	reader, err := os.ReadFile("../contrib/grafana/reader.sql")
	if err == nil {
		err = server.Exec(string(reader))
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", strings.Replace(server.URL("postgres"), "rt@", "grafana@", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, forbidden := range []string{"SELECT * FROM setting", "SELECT * FROM run", "DELETE FROM job"} {
		if _, err := db.ExecContext(t.Context(), forbidden); err == nil {
			t.Errorf("the user of Grafana may do this: %s", forbidden)
		}
	}
	checkQueries(t, db, "rt-jobs.json")
}

// SQLite answers each query of its dashboard of jobs, from a copy without the keys of the site.
func TestDashboardOfJobsInSQLite(t *testing.T) {
	dir := t.TempDir()
	registryFile, copied := filepath.Join(dir, "registry.db"), filepath.Join(dir, "new.db")
	fillDashboard(t, registryFile)
	copySQL, err := os.ReadFile("../contrib/grafana/copy.sql")
	if err != nil {
		t.Fatal(err)
	}
	site, err := sql.Open("sqlite3", registryFile)
	if err != nil {
		t.Fatal(err)
	}
	defer site.Close()
	site.SetMaxOpenConns(1)
	if _, err := site.ExecContext(t.Context(), strings.Replace(string(copySQL), "'new.db'", "'"+copied+"'", 1)); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", "file:"+copied+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, table := range []string{"setting", "run", "object"} {
		if _, err := db.ExecContext(t.Context(), "SELECT * FROM "+table); err == nil {
			t.Errorf("the copy has the table %s", table)
		}
	}
	checkQueries(t, db, "rt-jobs-sqlite.json")
}

// checkQueries checks the queries of a dashboard of jobs.
func checkQueries(t *testing.T, db *sql.DB, name string) {
	t.Helper()
	d, _ := readDashboard(t, name)
	n := 0
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			n++
			checkQuery(t, db, p.Title, q.RawSQL+q.QueryText, strings.ReplaceAll(q.Format+q.QueryType, " ", "_"))
		}
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			checkQuery(t, db, v.Name, v.Query.(string), "")
		}
	}
	if n < 15 {
		t.Errorf("the dashboard has %d queries", n)
	}
}

// fillDashboard makes a registry with a finished job, a running one and a node.
func fillDashboard(t *testing.T, url string) {
	t.Helper()
	r, err := registry.Open(t.Context(), url, registry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Nodes.Put(t.Context(), "owner", rtsite.NodeState{Cluster: "c", Node: "n1", Time: time.Now(), UndeliveredRuns: rt.Some[int64](2)}, time.Now()); err != nil {
		t.Fatal(err)
	}
	for n, state := range []rt.State{rt.StateEnded, rt.StateRunning} {
		id := fmt.Sprintf("20260301t120000-%026d", n)
		record := &rt.Run{
			Identity:   rt.Identity{Cluster: "c", JobID: rt.Some(uint64(n + 1)), Node: "n1", Start: time.Now().Add(-2 * time.Hour)},
			Allocation: rt.Allocation{User: "o'brien", Account: "physics", Partition: "batch"}, Ending: rt.Ending{State: state},
		}
		err := r.Runs.Create(t.Context(), rtsite.StoredRun{ID: id, Owner: "owner", Created: time.Now(), Metadata: []byte(`{}`)})
		if err == nil && state == rt.StateEnded {
			record.Outcome, record.End = rt.OutcomeFinished, time.Now().Add(-time.Hour)
		}
		if err == nil {
			_, err = r.Runs.PutObject(t.Context(), rtsite.Object{RunID: id, Name: rtsite.RecordName, Class: rtsite.ClassRecord, Bytes: 1, SHA256: id}, []byte("x"), record)
		}
		if err == nil && state == rt.StateEnded {
			summary := `{"elapsed_secs":3600,"cpu":{"used_secs":900,"allocated_secs":7200,"cores_of":"allocation"},` +
				`"memory":{"peak_bytes":1073741824,"limit_bytes":4294967296,"limit_of":"cgroup"},"gpus":[{"in_job":true,"busy_pct":50}]}`
			_, err = r.Runs.Finish(t.Context(), id, rtsite.Finish{RunStatus: "finished", DataSource: "inline", Summary: []byte(summary)}, nil, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// checkQuery runs a query with the macros and variables as Grafana replaces them. Each query has a row, and a time
// series has a time and a value.
func checkQuery(t *testing.T, db *sql.DB, name, query, format string) {
	t.Helper()
	now := time.Now().Unix()
	for _, lists := range [][2]string{{"cluster", "account"}, {"'c'", "'physics','o''brien'"}} { // all, and a choice
		text := strings.NewReplacer("$__from", fmt.Sprint((now-86400)*1000), "$__to", fmt.Sprint(now*1000), "$__unixEpochFrom()", fmt.Sprint(now-86400), "$__unixEpochTo()", fmt.Sprint(now),
			"${cluster:sqlstring}", lists[0], "${account:sqlstring}", lists[1]).Replace(query)
		if m := regexp.MustCompile(`\$[_{A-Za-z]+`).FindString(text); m != "" {
			t.Errorf("%s: %s is no macro that the test knows", name, m)
		}
		rows, err := db.QueryContext(t.Context(), text)
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, text)
			return
		}
		columns, err := rows.Columns()
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(sql.NullString)
		}
		n := 0
		for ; err == nil && rows.Next(); n++ {
			err = rows.Scan(values...)
		}
		if err != nil || rows.Err() != nil || n == 0 {
			t.Errorf("%s: %d rows, %v, %v: %s", name, n, err, rows.Err(), text)
			return
		}
		isEmpty := slices.ContainsFunc(values, func(v any) bool { return !v.(*sql.NullString).Valid })
		isSeries := format != "time_series" || slices.Contains(columns, "time") && len(columns) > 1
		if isEmpty || !isSeries {
			t.Errorf("%s: the last row has a value that is not known, or there is no time: %q", name, columns)
		}
		rows.Close()
	}
}
