package registry

import (
	"fmt"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// With other prices the waste of all jobs is computed again, and later jobs have the same prices, also after a restart.
func TestPrices(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, again func() *Registry) {
		const summary = `{"elapsed_secs":100,"cpu":{"used_secs":100,"allocated_secs":%d,"cores_of":"allocation"},` +
			`"memory":{"peak_bytes":1073741824,"limit_bytes":4294967296,"limit_of":"cgroup"},"gpus":[{"in_job":true,"busy_pct":25}]}`
		finish := func(r *Registry, id string, allocated int) {
			f := site.Finish{RunStatus: "finished", DataSource: "inline", Summary: fmt.Appendf(nil, summary, allocated)}
			_, err := r.Runs.Finish(t.Context(), id, f, nil, nil)
			is(t, "FinishRun", err, nil)
		}
		finish(r, putRun(t, r, 1, job(1, 0)).ID, 400)
		same(t, "the default prices", figuresOf(t, r, 1), "100 of 400, waste 1575, GPUs true") // 300 + 75*16 + 300*0.25
		putRun(t, r, 2, job(2, 0))
		is(t, "SetPrices", r.SetPrices(t.Context(), report.Prices{GPU: 2, GiB: 1, CoreHour: 3}), nil)
		same(t, "new prices", figuresOf(t, r, 1), "100 of 400, waste 750, GPUs true")
		same(t, "a job without figures", figuresOf(t, r, 2), "none, waste false")
		r = again()
		finish(r, putRun(t, r, 3, job(3, 0)).ID, 200)
		same(t, "a later job", figuresOf(t, r, 3), "100 of 200, waste 550, GPUs true")
		same(t, "the prices", fmt.Sprint(r.Prices()), fmt.Sprint(report.Prices{GPU: 2, GiB: 1}))
		is(t, "SetPrices", r.SetPrices(t.Context(), report.DefaultPrices), nil)
		jobs, _, err := r.Jobs.List(t.Context(), site.Filter{JobID: rt.Some[uint64](1)}, "", 10)
		if err != nil || len(jobs) != 1 || jobs[0].Balance.Waste(report.DefaultPrices).Or(-1) != float64(jobs[0].Waste.Or(-2)) {
			t.Errorf("%v %v: the waste in the row is not that of the balance", jobs, err)
		}
	})
}
