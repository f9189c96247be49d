package api

import (
	"net/http"
	"testing"
)

// BenchmarkRuns takes whole runs from 64 clients at a time, without a network between:
// a registration, an object, a finish.
func BenchmarkRuns(b *testing.B) {
	r, m := newStores(b)
	s, err := New(b.Context(), Config{Registry: r, Objects: m, Tokens: tokensOf(token)})
	if err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(32)
	b.RunParallel(func(p *testing.PB) {
		body := packed(b, "a,b\n1,2\n3,4\n")
		for p.Next() {
			g := register(b, s)
			path := "/rt/runs/" + g.RunID + "/000001.csv.gz"
			if status, answer := put(b, s, signedPut{g: g, path: path, body: body}); status != http.StatusOK {
				b.Errorf("%d %s", status, answer)
			}
			finish := `{"run_status":"finished","data_source":"s3","data_uris":["s3:/` + path + `"]}`
			if status, answer := api(b, s, "POST", "/runs/"+g.RunID+"/finish", finish); status != http.StatusOK {
				b.Errorf("%d %s", status, answer)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
