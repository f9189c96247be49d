package gempba

import (
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/gempba"
)

// work adds up the use of the workers on the host of the run, from their frames.
type work struct {
	seen   map[uint32]seenWorker
	ts     int64   // of the previous line
	used   float64 // microseconds of CPU time
	gaps   int     // frames of known workers without a percentage
	worked bool    // a worker was seen
	summed bool    // memory is the sum of resident sets
}

// seenWorker is the newest frame of a worker.
type seenWorker struct {
	seq rt.Opt[uint64]
	at  int64 // milliseconds, of the newest frame with a percentage
}

// job sets the figures of the job on the first host: the CPU time from the percentages of the
// workers, and the memory of the cgroup or of the workers.
func (im *importer) job(e *gempba.Envelope, s *rt.Snapshot) {
	rss, threads, whole := rt.None[uint64](), rt.None[uint64](), true
	there := 0
	for i := range e.Workers {
		f := &e.Workers[i]
		if !isOn(e, im.run.Node, f.WorkerID) {
			continue
		}
		there++
		whole = im.use(f, e.TS) && whole
		rss, threads = withOther(rss, f.ProcessRSSBytes), withOther(threads, f.ProcessThreads)
	}
	im.ts = e.TS
	im.worked = im.worked || there > 0
	if !im.worked {
		s.Job.Phase = rt.JobPending
		return
	}
	s.Job.Phase, s.Job.Threads = rt.JobPresent, threads
	if whole {
		s.Job.CPUUsage.Set(uint64(im.used))
	}
	at := slices.IndexFunc(e.Nodes, func(n gempba.NodeFrame) bool { return n.Hostname == im.run.Node })
	if at >= 0 {
		s.Job.MemCurrent, s.Job.MemLimit = e.Nodes[at].CgroupMemUsedBytes, e.Nodes[at].CgroupMemLimitBytes
	}
	if !s.Job.MemCurrent.Valid() && rss.Valid() {
		s.Job.MemCurrent, im.summed = rss, true
	}
}

// use adds what a worker used since its previous frame. It is false if that is unknown.
func (w *work) use(f *gempba.WorkerFrame, ts int64) bool {
	before, known := w.seen[f.WorkerID]
	if known && f.SeqNo.Valid() && f.SeqNo == before.seq {
		return true // the frame of the previous line
	}
	at := f.WorkerLocalMS.Or(ts)
	pct, ok := f.ProcessCPUPct.Get()
	if known && !ok { // the next percentage counts for this time too
		w.seen[f.WorkerID] = seenWorker{f.SeqNo, before.at}
		w.gaps++
		return false
	}
	w.seen[f.WorkerID] = seenWorker{f.SeqNo, at}
	if !known {
		before.at = w.ts // the worker is new since the previous line
	}
	if ok && before.at != 0 && at > before.at {
		w.used += pct / 100 * float64(at-before.at) * 1e3
	}
	return true
}

// isOn reports whether a worker is on a host; without a topology, whether there is only one host.
func isOn(e *gempba.Envelope, host string, worker uint32) bool {
	if e.Topology == nil {
		return len(e.Nodes) <= 1
	}
	for _, i := range e.Topology.Identities {
		if i.WorkerID == worker {
			return i.Hostname == host
		}
	}
	for _, n := range e.Topology.Nodes {
		if slices.Contains(n.WorkerIDs, worker) {
			return n.Hostname == host
		}
	}
	return false
}

// remark records in the ledger how the figures were computed.
func (im *importer) remark() {
	if !im.worked {
		return
	}
	parts := []string{"CPU time is computed from the percentages of the GemPBA workers"}
	if im.gaps > 0 {
		parts[0] += ", some of which are missing"
	}
	if im.summed {
		parts = append(parts, "memory is the sum of the resident sets of the workers")
	}
	im.w.Event(rt.Event{Time: im.run.End, Kind: "job", Name: "import", Status: "derived", Detail: strings.Join(parts, "; ")})
}
