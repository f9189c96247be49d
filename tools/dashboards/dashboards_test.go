// Package dashboards checks the dashboards of contrib/grafana against the schema that the authors of Grafana publish.
package dashboards

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/barchart"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// kinds are the panels that the dashboards may have.
var kinds = map[string]bool{"barchart": true, "row": true, "stat": true, "table": true, "timeseries": true}

// A dashboard has no field that Grafana does not know, also in the options of its panels and in the queries of
// Prometheus. Panels do not overlap, and each has a title, a description and the data source of the dashboard.
func TestSchema(t *testing.T) {
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(barchart.VariantConfig())
	runtime.RegisterPanelcfgVariant(stat.VariantConfig())
	runtime.RegisterPanelcfgVariant(table.VariantConfig())
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
	paths, err := filepath.Glob("../../contrib/grafana/*.json")
	if err != nil || len(paths) != 3 {
		t.Fatalf("%d dashboards: %v", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard.Dashboard
		for _, err := range []error{d.UnmarshalJSONStrict(text), d.Validate()} {
			if err != nil && err.Error() != "" { // an empty list of errors is none
				t.Errorf("%s: %v", path, err)
			}
		}
		checkPanels(t, path, text)
	}
}

// checkPanels checks what the schema does not say.
func checkPanels(t *testing.T, path string, text []byte) {
	t.Helper()
	type source struct{ UID string }
	var d struct {
		Panels []struct {
			ID                       int
			Type, Title, Description string
			Datasource               source
			GridPos                  struct{ X, Y, W, H int }
			Targets                  []struct{ Datasource source }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		isDescribed := p.Title != "" && (p.Type == "row" || p.Description != "")
		if !kinds[p.Type] || ids[p.ID] || !isDescribed {
			t.Errorf("%s: panel %d %q: its type %s or its id is wrong, or it has no description", path, p.ID, p.Title, p.Type)
		}
		ids[p.ID] = true
		for _, q := range append(p.Targets, struct{ Datasource source }{p.Datasource}) {
			if p.Type != "row" && q.Datasource.UID != "${datasource}" {
				t.Errorf("%s: %q is not from the data source of the dashboard", path, p.Title)
			}
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other := cells[cell]; other != "" || cell[0] >= 24 {
					t.Fatalf("%s: %q overlaps %q, or is outside", path, p.Title, other)
				}
				cells[cell] = p.Title
			}
		}
	}
}
