package report

import "github.com/resource-tracker/rt"

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
