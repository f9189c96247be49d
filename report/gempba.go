package report

import (
	"fmt"

	"github.com/resource-tracker/rt"
)

// GemPBA is what a GemPBA program of the job reported, in those of its lines that were stored.
// Its workers can be on several nodes.
type GemPBA struct {
	Lines      int             `json:"lines"`
	Hosts      int             `json:"hosts"` // most at once
	TasksLocal rt.Opt[uint64]  `json:"tasks_local"`
	TasksSent  rt.Opt[uint64]  `json:"tasks_sent"`
	TasksRecv  rt.Opt[uint64]  `json:"tasks_recv"`
	MaxRunning rt.Opt[uint64]  `json:"max_running"` // tasks at once, of all workers
	MaxPending rt.Opt[uint64]  `json:"max_pending"` // requests that waited at once, of all workers
	IdlePct    rt.Opt[float64] `json:"idle_pct"`    // of the workers' thread pools, mean over the time between their lines
	SentBytes  uint64          `json:"sent_bytes"`  // between workers
	SentCount  uint64          `json:"sent_count"`
	Workers    []GemPBAWorker  `json:"workers"` // by their ids
	Edges      []GemPBAEdge    `json:"edges"`   // those with most bytes
}

// GemPBAWorker is what one worker did, also before its reports were stored.
type GemPBAWorker struct {
	ID         uint32          `json:"worker_id"`
	Host       string          `json:"hostname"` // empty if the program did not report it
	TasksLocal rt.Opt[uint64]  `json:"tasks_local"`
	TasksSent  rt.Opt[uint64]  `json:"tasks_sent"`
	TasksRecv  rt.Opt[uint64]  `json:"tasks_recv"`
	IdlePct    rt.Opt[float64] `json:"idle_pct"`
}

// GemPBAEdge is what one worker sent to another one.
type GemPBAEdge struct {
	From  uint32 `json:"from"`
	To    uint32 `json:"to"`
	Bytes uint64 `json:"bytes"`
	Count uint64 `json:"count"`
}

// gempba writes the block of the job's program, if it reported anything.
func (p *page) gempba(s *Summary) {
	g := s.GemPBA
	if g == nil {
		return
	}
	p.line("GemPBA", "%s on %s, %s kept; idle %s", plural(len(g.Workers), "worker"), plural(g.Hosts, "host"), plural(g.Lines, "line"), number(g.IdlePct, "%.1f %%"))
	p.line("  tasks", "%s local, %s sent, %s received; at most %s running, %s waiting", count(g.TasksLocal), count(g.TasksSent), count(g.TasksRecv),
		count(g.MaxRunning), count(g.MaxPending))
	if len(g.Edges) > 0 {
		e := &g.Edges[0]
		p.line("  traffic", "%s in %d; most from %d to %d: %s in %d", size(rt.Some(g.SentBytes)), g.SentCount, e.From, e.To, size(rt.Some(e.Bytes)), e.Count)
	}
	if most := g.busiest(); most != nil && len(g.Workers) > 1 {
		p.line("", "%s", fmt.Sprintf("most tasks: worker %d, %s local and %s received", most.ID, count(most.TasksLocal), count(most.TasksRecv)))
	}
}

// busiest returns the worker that ran most tasks.
func (g *GemPBA) busiest() (most *GemPBAWorker) {
	tasks := func(w *GemPBAWorker) uint64 { return w.TasksLocal.Or(0) + w.TasksRecv.Or(0) }
	for i := range g.Workers {
		w := &g.Workers[i]
		more := most == nil || tasks(w) > tasks(most)
		if more && tasks(w) > 0 {
			most = w
		}
	}
	return most
}
