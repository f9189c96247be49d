package gempba

import (
	"encoding/json"
	"testing"

	"github.com/resource-tracker/rt"
)

func TestTotals(t *testing.T) {
	n := rt.Some[uint64]
	e := &Envelope{TS: 7, Nodes: make([]NodeFrame, 2), Workers: []WorkerFrame{
		{WorkerID: 0, TasksLocalTotal: n(10), TasksSentTotal: n(1), TasksRunning: n(2), IdleMicros: n(3), EdgesOut: []Edge{{To: 5, Bytes: 10, Count: 1}, {To: 7, Bytes: 30, Count: 2}}},
		{WorkerID: 5, TasksLocalTotal: n(5), TasksSentTotal: n(0), IdleMicros: n(4), EdgesOut: []Edge{{To: 0, Bytes: 20, Count: 4}}},
	}}
	b, err := json.Marshal(e.Totals())
	const want = `{"ts":7,"workers":2,"nodes":2,"tasks_local_total":15,"tasks_sent_total":1,"tasks_recv_total":null,"tasks_running":null,` +
		`"scheduler_pending_count":null,"idle_microseconds_per_worker":3.5,"edges_bytes":60,"edges_count":7,` +
		`"edges":[{"from":0,"to":7,"bytes":30,"count":2},{"from":5,"to":0,"bytes":20,"count":4},{"from":0,"to":5,"bytes":10,"count":1}]}`
	if err != nil || string(b) != want {
		t.Errorf("got  %s, %v\nwant %s", b, err, want)
	}
	e.Workers[0].EdgesOut = nil
	for i := range uint32(100) {
		e.Workers[0].EdgesOut = append(e.Workers[0].EdgesOut, Edge{To: i, Bytes: uint64(i), Count: 1})
	}
	if got := e.Totals(); len(got.Edges) != MaxTotalsEdges || got.Edges[0].To != 99 || got.EdgesCount != 104 {
		t.Errorf("of 101 edges: %+v", got)
	}
	if got := (&Envelope{}).Totals(); got.TasksLocalTotal.Valid() || got.IdleMicros.Valid() {
		t.Errorf("the totals of no worker have values: %+v", got)
	}
}
