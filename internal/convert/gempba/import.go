package gempba

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/gempba"
	"github.com/resource-tracker/rt/spool"
)

// Import makes a run of a broadcast that was recorded: the lines are kept as
// reports of the program, and what they say of the first host are its readings. A
// file that is damaged or cut makes no run.
func Import(dir, name string, r io.Reader) ([]string, error) {
	d := gempba.NewDecoder(r)
	first, err := d.Next()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("it has no line of telemetry")
	}
	if err != nil {
		return nil, err
	}
	im := importer{run: runFrom(first), work: work{seen: map[uint32]seenWorker{}}}
	im.w, err = spool.Create(dir, im.run, rt.Host{HostName: im.run.Node}, spool.Options{CommitRows: 128, CommitInterval: time.Hour})
	if err != nil {
		return nil, err
	}
	for e := first; err == nil; e, err = d.Next() {
		if err := im.take(e); err != nil {
			return nil, im.discard(err)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, im.discard(err)
	}
	im.run.End = time.Unix(0, im.snap.Wall).UTC()
	im.run.State, im.run.Outcome, im.run.OutcomeSource = rt.StateEnded, rt.OutcomeUnknown, "import"
	im.w.Event(rt.Event{Time: im.run.End, Kind: "tracker", Name: "import", Status: "ok", Detail: "imported from the GemPBA telemetry in " + name})
	im.remark()
	if err := im.w.End(im.run); err != nil {
		return nil, im.discard(err)
	}
	return []string{im.w.Path()}, nil
}

// runFrom is what the first line says of the run.
func runFrom(first *gempba.Envelope) rt.Run {
	run := rt.Run{Identity: rt.Identity{Start: time.UnixMilli(first.TS).UTC(), Node: hostOf(first)}, Ending: rt.Ending{State: rt.StateRunning}}
	if of := first.Run; of != nil {
		run.Cluster, run.JobID, run.ArrayJobID, run.ArrayTaskID, run.Step = of.Cluster, of.JobID, of.ArrayJobID, of.ArrayTaskID, of.Step
		run.Meta.JobName, run.User, run.UID, run.Account, run.Partition = of.JobName, of.User, of.UID, of.Account, of.Partition
	}
	return run
}

// hostOf is the host that the center speaks of first.
func hostOf(e *gempba.Envelope) string {
	switch {
	case len(e.Nodes) > 0:
		return e.Nodes[0].Hostname
	case e.Topology != nil && len(e.Topology.Nodes) > 0:
		return e.Topology.Nodes[0].Hostname
	}
	return ""
}

type importer struct {
	w        *spool.Writer
	run      rt.Run
	snap     rt.Snapshot
	frame    rt.Opt[int64] // when the host's newest frame was taken, by its own clock
	topology []byte
	work
}

// take keeps a line, without its topology where that is as before, and what it says
// of the host, where that is new.
func (im *importer) take(e *gempba.Envelope) error {
	im.reading(e)
	if err := im.w.Put(&im.snap); err != nil {
		return err
	}
	topology, err := gempba.AppendLine(nil, &gempba.Envelope{Topology: e.Topology})
	if err != nil {
		return err
	}
	line := *e
	line.Run = nil // the run's row has it
	if bytes.Equal(topology, im.topology) {
		line.Topology = nil
	} else if e.Topology != nil {
		im.topology = topology
	}
	body, err := gempba.AppendLine(nil, &line)
	if err != nil {
		return err
	}
	return im.w.Record(rt.Record{Time: im.snap.Wall, Source: "gempba", Body: bytes.TrimSuffix(body, []byte("\n"))})
}

// reading is what the line says of the host. Time never goes back: where the program's
// clock did, a reading is a millisecond after the one before.
func (im *importer) reading(e *gempba.Envelope) {
	before := im.snap
	s := rt.Snapshot{Seq: before.Seq + 1, Wall: e.TS * 1e6, Reason: rt.ReasonTick}
	if s.Seq == 1 {
		s.Reason, s.Boot = rt.ReasonFirst, int64(time.Second)
	} else {
		s.Boot = before.Boot + max(s.Wall-before.Wall, int64(time.Millisecond))
	}
	at := slices.IndexFunc(e.Nodes, func(n gempba.NodeFrame) bool { return n.Hostname == im.run.Node })
	if at >= 0 {
		n := &e.Nodes[at]
		if taken := n.SentinelLocalMS; !taken.Valid() || taken != im.frame { // else it was read already, and nothing is read twice
			im.frame = taken
			s.Node = rt.NodeReading{
				CPUs: n.LogicalCores, MemTotal: n.MemTotalBytes, MemAvailable: n.MemAvailBytes,
				NetRxBytes: n.Net.BytesIn, NetTxBytes: n.Net.BytesOut,
				DiskReadBytes: n.Disk.ReadBytes, DiskWriteBytes: n.Disk.WriteBytes,
			}
		}
	}
	im.job(e, &s)
	im.snap = s
}

// discard removes what was made of a file that is not whole.
func (im *importer) discard(why error) error {
	why = errors.Join(fmt.Errorf("no run is made of it: %w", why), im.w.Close())
	made, err := spool.Open(im.w.Path())
	if err != nil {
		return errors.Join(why, err)
	}
	return errors.Join(why, made.Remove())
}
