package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/upload"
)

// node is the spool of one simulated node, in memory: one run that has ended.
type node struct {
	run       rt.Run
	rows      int
	records   *records
	number    int
	reg       rt.Registration
	known     bool
	batches   []rt.Batch
	delivered bool
}

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newNode(n, rows int, r *records) *node {
	run := rt.Run{
		Identity: rt.Identity{
			Cluster: "c", JobID: rt.Some(uint64(n + 1)), Node: fmt.Sprintf("n%d", n),
			Start: began,
		},
		Allocation: rt.Allocation{Scheduler: "slurm", User: "anna", Account: "chem"},
		Meta:       rt.Metadata{JobName: "md", Orchestrator: "slurm"},
		Ending:     rt.Ending{End: began.Add(time.Hour), State: rt.StateEnded, Outcome: rt.OutcomeFinished, ExitCode: rt.Some[int64](0)},
	}
	run.Meta.ExternalRunID = run.ExternalRunID()
	return &node{run: run, rows: rows, records: r, number: n}
}

// Runs and Open implement upload.Directory.
func (n *node) Runs(context.Context) ([]upload.Entry, error) {
	if n.delivered {
		return nil, nil
	}
	return []upload.Entry{{Name: "run.db", Start: n.run.Start}}, nil
}
func (n *node) Open(string) (upload.Spooled, error) { return n, nil }

// The rest implements upload.Spooled.
func (n *node) Run() rt.Run   { return n.run }
func (n *node) Host() rt.Host { return rt.Host{HostName: n.run.Node} }

func (n *node) Registration() (rt.Registration, bool, error) { return n.reg, n.known, nil }
func (n *node) SaveRegistration(reg rt.Registration) error   { n.reg, n.known = reg, true; return nil }
func (n *node) Batches() ([]rt.Batch, error)                 { return n.batches, nil }
func (n *node) SealBatch(b rt.Batch) error                   { n.batches = append(n.batches, b); return nil }
func (n *node) MarkUploaded(number int, at time.Time) error {
	n.batches[number-1].UploadedAt = at
	return nil
}
func (n *node) LastSeq() (int64, error)       { return int64(n.rows + 1), nil }
func (n *node) MarkDelivered(time.Time) error { n.delivered = true; return nil }
func (n *node) AddEvent(rt.Event) error       { return nil }
func (n *node) Events() ([]rt.Event, error)   { return nil, nil }
func (n *node) Close() error                  { return nil }

func (n *node) WriteRecord(_ context.Context, w io.Writer) error {
	_, err := w.Write(n.records.bodies[n.number])
	return err
}
func (n *node) Figures(context.Context) ([]byte, error) { return n.records.figures, nil }

func (n *node) Rates(_ context.Context, from, to int64) iter.Seq2[*rt.Snapshot, error] {
	return func(yield func(*rt.Snapshot, error) bool) {
		for seq := from; seq <= to; seq++ {
			s := rt.Snapshot{Seq: seq, Wall: began.UnixNano() + seq*1e10, Boot: seq * 1e10}
			v := uint64(seq)
			s.Job = rt.JobReading{
				Phase: rt.JobPresent, CPUUsage: rt.Some(v * 9_871_003), CPUUser: rt.Some(v * 9_000_137), CPUSystem: rt.Some(v * 870_866),
				MemCurrent: rt.Some(1<<30 + v*v*4096%(1<<28)), MemPeak: rt.Some[uint64](2 << 30), Pids: rt.Some[uint64](3),
			}
			s.Node.NetRxBytes, s.Node.NetTxBytes = rt.Some(v*v*3701), rt.Some(v*150_001)
			if !yield(&s, nil) {
				return
			}
		}
	}
}
