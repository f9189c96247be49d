package gempba

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// Import makes a run of a recorded broadcast in the spool at dir, and returns its path. The lines
// are stored with the run, and the frames of the first host are its readings. name is the name of
// the file for the ledger. A recording that ends within a line is imported up to that line, with
// an event in the ledger; a damaged file makes no run.
func Import(dir string, limits *spool.ImportLimits, name string, r io.Reader) ([]string, error) {
	d := NewDecoder(r)
	first, err := d.Next()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("it has no lines of telemetry")
	}
	if err != nil {
		return nil, err
	}
	im := importer{run: runFrom(first), work: work{seen: map[uint32]seenWorker{}}}
	im.w, err = limits.Create(dir, im.run, rt.Host{HostName: im.run.Node}, spool.Options{CommitRows: 128, CommitInterval: time.Hour})
	if err != nil {
		return nil, err
	}
	for e := first; err == nil; e, err = d.Next() {
		if err := im.addLine(e); err != nil {
			return nil, im.discard(err)
		}
	}
	isCut := errors.Is(err, ErrCut)
	if !isCut && !errors.Is(err, io.EOF) {
		return nil, im.discard(err)
	}
	im.run.End = time.Unix(0, im.snap.Wall).UTC()
	im.run.State, im.run.Outcome, im.run.OutcomeSource = rt.StateEnded, rt.OutcomeUnknown, "import"
	im.w.Event(rt.Event{Time: im.run.End, Kind: "tracker", Name: "import", Status: "ok", Detail: "imported from the GemPBA telemetry in " + name})
	if isCut { // a recorder that was stopped, or a full disk: the lines before are whole
		im.w.Event(rt.Event{Time: im.run.End, Kind: "gap", Name: "import", Status: "damaged", Detail: "the recording ends in the middle of a line, which is left out: " + err.Error()})
	}
	im.remark()
	if err := im.w.End(im.run); err != nil {
		return nil, im.discard(err)
	}
	return []string{im.w.Path()}, nil
}

// runFrom returns the run that the first line describes.
func runFrom(first *Envelope) rt.Run {
	run := rt.Run{Identity: rt.Identity{Start: time.UnixMilli(first.TS).UTC(), Node: hostOf(first)}, Ending: rt.Ending{State: rt.StateRunning}}
	if of := first.Run; of != nil {
		run.Cluster, run.JobID, run.ArrayJobID, run.ArrayTaskID, run.Step = of.Cluster, of.JobID, of.ArrayJobID, of.ArrayTaskID, of.Step
		run.Meta.JobName, run.User, run.UID, run.Account, run.Partition = of.JobName, of.User, of.UID, of.Account, of.Partition
	}
	return run
}

// hostOf returns the first host in a line.
func hostOf(e *Envelope) string {
	switch {
	case len(e.Nodes) > 0:
		return e.Nodes[0].Hostname
	case e.Topology != nil && len(e.Topology.Nodes) > 0:
		return e.Topology.Nodes[0].Hostname
	}
	return ""
}

type importer struct {
	w     *spool.Writer
	run   rt.Run
	snap  rt.Snapshot
	frame rt.Opt[int64] // time of the newest frame of the host, by the clock of the host
	kept  Kept
	work
}

// addLine stores a line, without its topology if that has not changed, and a reading of the host.
func (im *importer) addLine(e *Envelope) error {
	im.setReading(e)
	if err := im.w.Put(&im.snap); err != nil {
		return err
	}
	line := *e
	line.Run = nil // the run has it
	record, err := im.kept.Record(line, im.snap.Wall)
	if err != nil {
		return err
	}
	return im.w.Record(record)
}

// setReading sets the reading of the host: a millisecond after the previous one if the clock went back.
func (im *importer) setReading(e *Envelope) {
	before := im.snap
	s := rt.Snapshot{Seq: before.Seq + 1, Wall: e.TS * 1e6, Reason: rt.ReasonTick}
	if s.Seq == 1 {
		s.Reason, s.Boot = rt.ReasonFirst, int64(time.Second)
	} else {
		s.Boot = before.Boot + max(s.Wall-before.Wall, int64(time.Millisecond))
	}
	at := slices.IndexFunc(e.Nodes, func(n NodeFrame) bool { return n.Hostname == im.run.Node })
	if at >= 0 {
		n := &e.Nodes[at]
		if taken := n.SentinelLocalMS; !taken.Valid() || taken != im.frame { // otherwise the frame is repeated
			im.frame = taken
			s.Node = rt.NodeReading{
				CPUs: n.LogicalCores, MemTotal: n.MemTotalBytes, MemAvailable: n.MemAvailBytes,
				NetRxBytes: n.Net.BytesIn, NetTxBytes: n.Net.BytesOut,
				DiskReadBytes: n.Disk.ReadBytes, DiskWriteBytes: n.Disk.WriteBytes,
			}
		}
	}
	im.setJob(e, &s)
	im.snap = s
}

// discard removes the run of a damaged file.
func (im *importer) discard(why error) error {
	return errors.Join(fmt.Errorf("no run is made of it: %w", why), im.w.Discard())
}

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

// setJob sets the CPU time of the job on the first host, from percentages, and its memory.
func (im *importer) setJob(e *Envelope, s *rt.Snapshot) {
	rss, threads, whole := rt.None[uint64](), rt.None[uint64](), true
	there := 0
	for i := range e.Workers {
		f := &e.Workers[i]
		if !isOn(e, im.run.Node, f.WorkerID) {
			continue
		}
		there++
		whole = im.addUse(f, e.TS) && whole
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
	at := slices.IndexFunc(e.Nodes, func(n NodeFrame) bool { return n.Hostname == im.run.Node })
	if at >= 0 {
		s.Job.MemCurrent, s.Job.MemLimit = e.Nodes[at].CgroupMemUsedBytes, e.Nodes[at].CgroupMemLimitBytes
	}
	if !s.Job.MemCurrent.Valid() && rss.Valid() {
		s.Job.MemCurrent, im.summed = rss, true
	}
}

// addUse adds what a worker used since its previous frame. It is false if that is unknown.
func (w *work) addUse(f *WorkerFrame, ts int64) bool {
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
func isOn(e *Envelope, host string, worker uint32) bool {
	if e.Topology == nil {
		return len(e.Nodes) <= 1
	}
	return host != "" && e.Topology.Identity(worker).Hostname == host
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
