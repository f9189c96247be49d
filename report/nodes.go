package report

import (
	"cmp"
	"slices"

	"github.com/resource-tracker/rt"
)

// Nodes is what the runs of one attempt of a job used on their nodes. Memory is
// compared node by node: the peak of one node is not related to the limit of another.
type Nodes struct {
	CPU
	Nodes []NodeShare `json:"nodes"` // the fullest memory first
	// WorstPct and MeanPct are of the nodes' peaks, each of its own limit.
	WorstPct     rt.Opt[float64] `json:"worst_memory_pct"`
	MeanPct      rt.Opt[float64] `json:"mean_memory_pct"`
	CPUImbalance rt.Opt[float64] `json:"cpu_imbalance"` // busiest node over the mean
	OOMKills     rt.Opt[uint64]  `json:"oom_kills"`
	// Expected is the number of the job's nodes. Nodes has fewer if some of its runs are in
	// the spool of another node.
	Expected rt.Opt[uint64] `json:"expected_nodes"`
	Complete bool           `json:"complete"` // all nodes are here, and each is complete
	// Sacct compares the sums with accounting, if all nodes are here.
	Sacct []Difference `json:"sacct,omitempty"`
}

// NodeShare is the part of one node.
type NodeShare struct {
	Node string `json:"node"`
	Used
	UsedPct rt.Opt[float64] `json:"used_pct"`
	PeakMemory
	LimitBytes rt.Opt[uint64]  `json:"limit_bytes"`
	PeakPct    rt.Opt[float64] `json:"peak_pct"`
	OOMKills   rt.Opt[uint64]  `json:"oom_kills"`
	Complete   bool            `json:"complete"`
}

// attempt identifies one attempt of a job or step. If a restart count repeats, or Slurm uses the id again, two
// attempts are still separate. A node is in an attempt only once, and all of its runs are of one job.
type attempt struct {
	cluster, step string
	job, number   uint64
	turn          int
}

// attempts groups the summaries of jobs by attempt, in their order; others are omitted.
func attempts(list []*Summary) (keys []attempt, of map[attempt][]*Summary) {
	of = map[attempt][]*Summary{}
	for _, s := range list {
		id, ok := s.Run.JobID.Get()
		if !ok {
			continue
		}
		key := attempt{cluster: s.Run.Cluster, step: s.Run.Step, job: id, number: s.Run.Attempt}
		for slices.ContainsFunc(of[key], func(o *Summary) bool { return o.Run.Node == s.Run.Node || !o.Run.IsOfJob(&s.Run) }) {
			key.turn++
		}
		if of[key] == nil {
			keys = append(keys, key)
		}
		of[key] = append(of[key], s)
	}
	return keys, of
}

// Together fills Nodes of the summaries of a job that has several runs.
func Together(list []*Summary) {
	keys, of := attempts(list)
	for _, key := range keys {
		if len(of[key]) < 2 {
			continue
		}
		n := together(of[key])
		for _, s := range of[key] {
			s.Nodes = n
		}
	}
}

func together(list []*Summary) *Nodes {
	n := &Nodes{Expected: list[0].Run.NumNodes, Complete: true}
	n.CoresOf = list[0].CPU.CoresOf
	var busiest float64
	for _, s := range list {
		share := NodeShare{
			Node: s.Run.Node, Used: s.CPU.Used, UsedPct: s.CPU.UsedPct, PeakMemory: s.Memory.PeakMemory, LimitBytes: s.Memory.LimitBytes, PeakPct: s.Memory.PeakPct,
			OOMKills: s.Memory.OOMKills, Complete: s.Record.Complete,
		}
		n.Nodes = append(n.Nodes, share)
		n.Complete = n.Complete && share.Complete
		raise(&n.WorstPct, share.PeakPct)
		busiest = max(busiest, share.UsedSecs.Or(0))
	}
	n.sumCPU(list)
	n.OOMKills = whole(sumOf(n.Nodes, func(s NodeShare) rt.Opt[float64] { return rt.Scaled(s.OOMKills, 1) }))
	if v, ok := sumOf(n.Nodes, func(s NodeShare) rt.Opt[float64] { return s.PeakPct }).Get(); ok {
		n.MeanPct.Set(v / float64(len(list)))
	}
	if used, ok := n.UsedSecs.Get(); ok && used > 0 {
		n.CPUImbalance.Set(busiest / (used / float64(len(list))))
	}
	n.compareSacct(list)
	n.Complete = n.Complete && n.Expected.Or(uint64(len(list))) == uint64(len(list))
	slices.SortStableFunc(n.Nodes, func(a, b NodeShare) int {
		return cmp.Or(-cmp.Compare(a.PeakPct.Or(-1), b.PeakPct.Or(-1)), cmp.Compare(a.Node, b.Node))
	})
	return n
}

// sumCPU adds up the CPU time. If it is unknown for one node, the sum is unknown.
func (n *Nodes) sumCPU(list []*Summary) {
	n.Used = addUsed(list, func(s *Summary) Used { return s.CPU.Used })
	n.UserSecs = sumOf(list, func(s *Summary) rt.Opt[float64] { return s.CPU.UserSecs })
	n.SystemSecs = sumOf(list, func(s *Summary) rt.Opt[float64] { return s.CPU.SystemSecs })
	n.AllocatedSecs = sumOf(list, func(s *Summary) rt.Opt[float64] { return s.CPU.AllocatedSecs })
	n.Cores = whole(sumOf(list, func(s *Summary) rt.Opt[float64] { return rt.Scaled(s.CPU.Cores, 1) }))
	if all := n.AllocatedSecs.Or(0); all > 0 && n.UsedSecs.Valid() {
		n.UsedPct.Set(n.UsedSecs.Or(0) / all * 100)
	}
}

// sumOf returns a sum that is absent if one of its parts is absent.
func sumOf[T any](list []T, of func(T) rt.Opt[float64]) (sum rt.Opt[float64]) {
	for _, part := range list {
		v, ok := of(part).Get()
		if !ok {
			return rt.None[float64]()
		}
		sum.Set(sum.Or(0) + v)
	}
	return sum
}

func whole(v rt.Opt[float64]) rt.Opt[uint64] {
	return rt.Map(v, func(x float64) uint64 { return uint64(x) })
}
