package gempba

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/runtest"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
)

// withProgram spools readings at 0, 10, ... s of the run, and lines of its program.
func withProgram(t *testing.T, seconds []int64, bodies ...string) *spool.Reader {
	t.Helper()
	run, list := runtest.Job()
	w, err := spool.Create(t.TempDir(), run, rt.Host{}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list[:4] {
		if err := w.Put(&list[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i, body := range bodies {
		if err := w.Record(rt.ForeignReport{Time: list[0].Wall + seconds[i]*1e9, Source: "gempba", Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	return runtest.Open(t, w.Path())
}

func programLine(ms int64, topology, workers string) string {
	return fmt.Sprintf(`{"version":1,"ts":%d,"elapsed_seconds":0,"topology":%s,"workers":[%s],"nodes":[{"sentinel_worker_id":0,"hostname":"n1"},{"sentinel_worker_id":1,"hostname":"n2"}]}`, ms, topology, workers)
}

// Worker 1 restarts between the second line and the third.
func TestGempbaFigures(t *testing.T) {
	r := withProgram(t, []int64{5, 15, 25},
		programLine(1000, `{"nodes":[],"identities":[{"worker_id":0,"hostname":"n1"},{"worker_id":1,"hostname":"n2"}]}`,
			`{"worker_id":0,"tasks_local_total":10,"tasks_sent_total":1,"tasks_recv_total":0,"tasks_running":2,"scheduler_pending_count":7,"idle_microseconds_per_worker":0,"edges_out":[{"to":1,"bytes":100,"count":1}]},`+
				`{"worker_id":1,"tasks_local_total":4,"tasks_running":1,"scheduler_pending_count":0,"idle_microseconds_per_worker":500000}`),
		programLine(2000, "null",
			`{"worker_id":0,"tasks_local_total":20,"tasks_sent_total":3,"tasks_recv_total":0,"tasks_running":1,"scheduler_pending_count":0,"idle_microseconds_per_worker":250000,"edges_out":[{"to":1,"bytes":300,"count":3}]},`+
				`{"worker_id":1,"tasks_local_total":9,"tasks_running":4,"scheduler_pending_count":1,"idle_microseconds_per_worker":1000000}`),
		programLine(3000, "null", `{"worker_id":1,"tasks_local_total":2,"tasks_running":null,"idle_microseconds_per_worker":0}`))
	got, err := Figures(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	n := rt.Some[uint64]
	want := &report.GemPBA{
		Lines: 3, Hosts: 2, TasksLocal: n(31), TasksSent: n(3), TasksRecv: n(0), MaxRunning: n(5), MaxPending: n(7), IdlePct: rt.Some(37.5),
		SentBytes: 300, SentCount: 3, Edges: []report.GemPBAEdge{{From: 0, To: 1, Bytes: 300, Count: 3}},
		Workers: []report.GemPBAWorker{
			{ID: 0, Host: "n1", TasksLocal: n(20), TasksSent: n(3), TasksRecv: n(0), IdlePct: rt.Some(25.0)},
			{ID: 1, Host: "n2", TasksLocal: n(11), IdlePct: rt.Some(50.0)},
		},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(rt.Opt[uint64]{}, rt.Opt[float64]{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestNoGempbaFigures(t *testing.T) {
	r := withProgram(t, nil)
	if got, err := Figures(t.Context(), r); got != nil || err != nil {
		t.Errorf("without lines: %+v, %v", got, err)
	}
}
