package gempba

import (
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/gempba"
)

// work is what the workers of the run's host have used, as their frames say.
type work struct {
	seen   map[uint32]seenWorker
	ts     int64   // of the line before
	used   float64 // microseconds of CPU time
	gaps   int     // frames of workers that had been there, without a percentage
	worked bool    // there was a worker
	summed bool    // memory is the sum of resident sets
}

// seenWorker is the newest frame of a worker.
type seenWorker struct {
	seq rt.Opt[uint64]
	at  int64 // milliseconds, of the newest with a percentage
}

// job is what the line says of the job on its first host: the CPU time that the
// workers' percentages come to, and the memory of the cgroup, or of the workers.
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

// use adds what a worker used since its frame before. It is false where that is not
// known.
func (w *work) use(f *gempba.WorkerFrame, ts int64) bool {
	before, known := w.seen[f.WorkerID]
	if known && f.SeqNo.Valid() && f.SeqNo == before.seq {
		return true // the frame of the line before
	}
	at := f.WorkerLocalMS.Or(ts)
	pct, ok := f.ProcessCPUPct.Get()
	if known && !ok { // the next one that has a percentage stands for this time, too
		w.seen[f.WorkerID] = seenWorker{f.SeqNo, before.at}
		w.gaps++
		return false
	}
	w.seen[f.WorkerID] = seenWorker{f.SeqNo, at}
	if !known {
		before.at = w.ts // it has come since the line before
	}
	if ok && before.at != 0 && at > before.at {
		w.used += pct / 100 * float64(at-before.at) * 1e3
	}
	return true
}

// isOn says whether a worker is on a host; without a topology, whether there is no other.
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

// remark tells readers of the run what its figures are made of.
func (im *importer) remark() {
	if !im.worked {
		return
	}
	parts := []string{"CPU time is what the percentages of GemPBA's workers come to"}
	if im.gaps > 0 {
		parts[0] += ", of which some are missing"
	}
	if im.summed {
		parts = append(parts, "memory is the sum of the workers' resident sets")
	}
	im.w.Event(rt.Event{Time: im.run.End, Kind: "job", Name: "import", Status: "derived", Detail: strings.Join(parts, "; ")})
}
