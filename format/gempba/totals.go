package gempba

import (
	"cmp"
	"slices"

	"github.com/resource-tracker/rt"
)

// MaxTotalsEdges is how many edges Totals has at most.
const MaxTotalsEdges = 32

// Totals is what the workers of one line say together. A sum is absent if a worker
// does not say its part.
type Totals struct {
	TS      int64 `json:"ts"`      // of the line
	Workers int   `json:"workers"` // how many
	Nodes   int   `json:"nodes"`

	TasksLocalTotal rt.Opt[uint64]  `json:"tasks_local_total"`
	TasksSentTotal  rt.Opt[uint64]  `json:"tasks_sent_total"`
	TasksRecvTotal  rt.Opt[uint64]  `json:"tasks_recv_total"`
	TasksRunning    rt.Opt[uint64]  `json:"tasks_running"`
	PendingCount    rt.Opt[uint64]  `json:"scheduler_pending_count"`
	IdleMicros      rt.Opt[float64] `json:"idle_microseconds_per_worker"` // mean of the workers

	EdgesBytes uint64      `json:"edges_bytes"` // of all edges
	EdgesCount uint64      `json:"edges_count"`
	Edges      []TotalEdge `json:"edges"` // those with most bytes first, at most MaxTotalsEdges
}

// TotalEdge is an edge with both its ends.
type TotalEdge struct {
	From  uint32 `json:"from"` // worker_id
	To    uint32 `json:"to"`
	Bytes uint64 `json:"bytes"`
	Count uint64 `json:"count"`
}

// Totals sums up the line.
func (e *Envelope) Totals() Totals {
	t := Totals{
		TS: e.TS, Workers: len(e.Workers), Nodes: len(e.Nodes),
		TasksLocalTotal: sum(e.Workers, func(w *WorkerFrame) rt.Opt[uint64] { return w.TasksLocalTotal }),
		TasksSentTotal:  sum(e.Workers, func(w *WorkerFrame) rt.Opt[uint64] { return w.TasksSentTotal }),
		TasksRecvTotal:  sum(e.Workers, func(w *WorkerFrame) rt.Opt[uint64] { return w.TasksRecvTotal }),
		TasksRunning:    sum(e.Workers, func(w *WorkerFrame) rt.Opt[uint64] { return w.TasksRunning }),
		PendingCount:    sum(e.Workers, func(w *WorkerFrame) rt.Opt[uint64] { return w.PendingCount }),
		Edges:           []TotalEdge{},
	}
	if all, ok := sum(e.Workers, func(w *WorkerFrame) rt.Opt[uint64] { return w.IdleMicros }).Get(); ok {
		t.IdleMicros.Set(float64(all) / float64(len(e.Workers)))
	}
	for i := range e.Workers {
		for _, edge := range e.Workers[i].EdgesOut {
			t.EdgesBytes += edge.Bytes
			t.EdgesCount += edge.Count
			t.Edges = append(t.Edges, TotalEdge{e.Workers[i].WorkerID, edge.To, edge.Bytes, edge.Count})
		}
	}
	t.Edges = Heaviest(t.Edges)
	return t
}

// Heaviest sorts edges, those with most bytes first, and leaves MaxTotalsEdges.
func Heaviest(edges []TotalEdge) []TotalEdge {
	slices.SortFunc(edges, func(a, b TotalEdge) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Count, a.Count), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return edges[:min(len(edges), MaxTotalsEdges)]
}

// sum adds up a figure that all workers have.
func sum(workers []WorkerFrame, of func(*WorkerFrame) rt.Opt[uint64]) (out rt.Opt[uint64]) {
	for i := range workers {
		v, ok := of(&workers[i]).Get()
		if !ok {
			return rt.None[uint64]()
		}
		out.Set(out.Or(0) + v)
	}
	return out
}
