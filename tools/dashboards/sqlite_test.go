package dashboards

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the dashboard for SQLite")

// toSQLite puts what the data source of SQLite understands in the place of what only PostgreSQL has.
var toSQLite = strings.NewReplacer(
	`"uid": "rt-jobs"`, `"uid": "rt-jobs-sqlite"`, `"title": "rt: jobs"`, `"title": "rt: jobs (SQLite)"`,
	"from the database of rt-site", "from a copy of the SQLite database of rt-site",
	"grafana-postgresql-datasource", "frser-sqlite-datasource",
	"$__unixEpochFrom() * 1000000::bigint", "$__from * 1000", "$__unixEpochTo() * 1000000::bigint", "$__to * 1000",
	"extract(epoch FROM now())", "CAST(strftime('%s', 'now') AS integer)",
)

// query is a query of the data source of PostgreSQL.
var query = regexp.MustCompile(`"editorMode": "code",\n +"rawQuery": true,\n( +)"rawSql": (".*"),\n +"format": "(table|time_series)"`)

// The dashboard of jobs for SQLite is the one for PostgreSQL with the queries of the other data source.
func TestDashboardForSQLite(t *testing.T) {
	const file = "../../contrib/grafana/rt-jobs-sqlite.json"
	text, err := os.ReadFile("../../contrib/grafana/rt-jobs.json")
	if err != nil {
		t.Fatal(err)
	}
	want := query.ReplaceAllStringFunc(toSQLite.Replace(string(text)), func(found string) string {
		parts := query.FindStringSubmatch(found)
		indent, sql, kind := parts[1], parts[2], strings.ReplaceAll(parts[3], "_", " ")
		return `"queryText": ` + sql + ",\n" + indent + `"rawQueryText": ` + sql + ",\n" +
			indent + `"queryType": "` + kind + `",` + "\n" + indent + `"timeColumns": ["time"]`
	})
	for _, left := range []string{"rawSql", "::", "postgres", "$__unixEpoch"} {
		if strings.Contains(want, left) {
			t.Errorf("%q is left of PostgreSQL", left)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want {
		t.Errorf("%s is not made from rt-jobs.json: go test ./dashboards -update (%v)", file, err)
	}
}
