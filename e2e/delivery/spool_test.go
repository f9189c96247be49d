//go:build e2e

package delivery

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/resourcetracker"
	"github.com/resource-tracker/rt/spool"
)

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// spooled is a run in a spool, and what must arrive of it.
type spooled struct {
	path, externalID string
	csv              string
	rows             int64
}

// tracked is a run that is being written, as by its tracker.
type tracked struct {
	spooled
	run  rt.Run
	w    *spool.Writer
	csvs []byte
	prev rt.Snapshot
	n    int64
}

// track starts a run.
func track(t *testing.T, dir string, job uint64) *tracked {
	t.Helper()
	run := rt.Run{
		Identity: rt.Identity{
			Cluster: "c", JobID: rt.Some(job), Node: "n1", BootID: "another-boot",
			Start: began.Add(time.Duration(job) * time.Minute),
		},
		Allocation: rt.Allocation{Scheduler: "slurm", User: "anna"},
		Meta:       rt.Metadata{JobName: "md"},
		Ending:     rt.Ending{State: rt.StateRunning},
	}
	run.Meta.ExternalRunID = run.ExternalRunID()
	w, err := spool.Create(dir, run, rt.Host{HostName: "n1"}, spool.Options{CommitRows: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return &tracked{
		spooled: spooled{path: filepath.Join(dir, run.FileStem()+".db"), externalID: run.Meta.ExternalRunID},
		run:     run, w: w, csvs: []byte(resourcetracker.CSVHeader),
	}
}

// read takes n snapshots and commits them.
func (r *tracked) read(t *testing.T, n int, random *rand.Rand) {
	t.Helper()
	for range n {
		s := next(r.prev, r.run.Start, r.n, random)
		if err := r.w.Put(&s); err != nil {
			t.Fatal(err)
		}
		if r.n++; r.n > 1 {
			row := rt.DeriveScalars(&r.prev, &s, rt.ScopeJob)
			r.csvs = resourcetracker.AppendCSV(r.csvs, s.Wall/1e9, &row)
			r.rows++
		}
		r.prev = s
	}
	if err := r.w.Flush(); err != nil {
		t.Fatal(err)
	}
}

// end ends a run, or leaves it as a killed tracker does.
func (r *tracked) end(t *testing.T, lost bool) spooled {
	t.Helper()
	var err error
	if lost {
		err = r.w.Close()
	} else {
		r.run.Apply(rt.Exit{Code: rt.Some[int64](0), Signal: rt.Some[int64](0), Outcome: rt.OutcomeFinished, Source: "epilog", Time: r.run.Start.Add(time.Hour)})
		err = r.w.End(r.run)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.csv = string(r.csvs)
	return r.spooled
}

// put makes a run of n snapshots, every third as a killed tracker leaves it.
func put(t *testing.T, dir string, job uint64, n int, random *rand.Rand) spooled {
	t.Helper()
	r := track(t, dir, job)
	r.read(t, n, random)
	return r.end(t, job%3 == 0)
}

// next returns the i-th snapshot of a run: all values of the rows are read, and grow.
func next(prev rt.Snapshot, start time.Time, i int64, random *rand.Rand) rt.Snapshot {
	s := rt.Snapshot{Seq: i + 1, Wall: start.UnixNano() + i*1e9, Boot: 500e9 + i*1e9, Reason: rt.ReasonTick}
	if i == 0 {
		s.Reason = rt.ReasonFirst
	}
	grow := func(v rt.Opt[uint64], by uint64) rt.Opt[uint64] { return rt.Some(v.Or(0) + random.Uint64N(by)) }
	cpu := rt.CPUTimes{User: uint64(1000 + 50*i), Idle: uint64(9000 + 150*i)}
	s.Node = rt.NodeReading{
		CPU: rt.Some(cpu), CPUs: rt.Some[uint64](2), Processes: rt.Some[uint64](90 + random.Uint64N(9)),
		NetRxBytes: grow(prev.Node.NetRxBytes, 1e6), NetTxBytes: grow(prev.Node.NetTxBytes, 1e6),
	}
	s.Job = rt.JobReading{
		Phase: rt.JobPresent, CPUUser: grow(prev.Job.CPUUser, 9e5), CPUSystem: grow(prev.Job.CPUSystem, 1e5),
		MemCurrent: rt.Some((32 + random.Uint64N(32)) << 20), MemPeak: rt.Some[uint64](64 << 20), Pids: rt.Some[uint64](3),
		IOReadBytes: grow(prev.Job.IOReadBytes, 1e7), IOWriteBytes: grow(prev.Job.IOWriteBytes, 1e7),
	}
	s.Job.CPUUsage = rt.Some(s.Job.CPUUser.Or(0) + s.Job.CPUSystem.Or(0))
	return s
}

// ledger is the state of a run's delivery in its file.
type ledger struct {
	state    rt.State
	reg      rt.Registration
	warnings int // events of a possible duplicate or a forgotten run
	// isUnconfirmed: the receiver refused to close the run twice.
	isUnconfirmed bool
}

func readLedger(t *testing.T, path string) ledger {
	t.Helper()
	r, err := spool.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	reg, _, err := r.Delivery().Registration()
	if err != nil {
		t.Fatal(err)
	}
	events, err := r.Events()
	if err != nil {
		t.Fatal(err)
	}
	l := ledger{state: r.Run().State, reg: reg}
	for _, e := range events {
		switch e.Status {
		case "possible duplicate", "forgotten":
			l.warnings++
		case "finish unconfirmed":
			l.isUnconfirmed = true
		}
	}
	return l
}

// found is what arrived at a receiver, other than the runs themselves.
type found struct{ unconfirmed, unused, forgotten int }

// arrived checks that every run was finished once with the rows that were spooled, and that its
// ledger explains each registration. Runs that the receiver has forgotten do not count.
func arrived(t *testing.T, r *receiver, forgotten map[string]bool, sent []spooled) (got found) {
	t.Helper()
	byID := r.runs(t)
	for _, s := range sent {
		l := readLedger(t, s.path)
		isClosed := !l.reg.FinishedAt.IsZero() || l.isUnconfirmed
		if l.state != rt.StateDelivered || !isClosed {
			t.Errorf("%s is %s, its finish was confirmed at %s", s.externalID, l.state, l.reg.FinishedAt)
		}
		if l.isUnconfirmed {
			got.unconfirmed++
		}
		there := byID[s.externalID]
		delete(byID, s.externalID)
		if len(there) > l.reg.Attempts || len(there) > 1 && l.warnings == 0 {
			t.Errorf("%s: %d runs are registered; the ledger has %d requests and %d warnings", s.externalID, len(there), l.reg.Attempts, l.warnings)
		}
		finished := 0
		for _, run := range there {
			switch {
			case forgotten[run.ID]:
				got.forgotten++
			case run.Status == "running":
				if got.unused++; run.Rows != 0 {
					t.Errorf("%s: an unused registration holds %d rows", s.externalID, run.Rows)
				}
			default:
				finished++
				s.compare(t, r, run, l.reg.RemoteID)
			}
		}
		if finished != 1 {
			t.Errorf("%s is finished %d times", s.externalID, finished)
		}
	}
	for id := range byID {
		t.Errorf("the receiver holds %q, which was never spooled", id)
	}
	return got
}

// compare checks a finished run of the receiver.
func (s *spooled) compare(t *testing.T, r *receiver, run received, remoteID string) {
	t.Helper()
	if run.ID != remoteID {
		t.Errorf("%s: %s is finished, the ledger has %s", s.externalID, run.ID, remoteID)
	}
	if got := string(r.get(t, "/runs/"+run.ID+"/data")); got != s.csv || run.Rows != s.rows {
		t.Errorf("%s: %d rows in %d bytes arrived, %d in %d were spooled: %s", s.externalID, run.Rows, len(got), s.rows, len(s.csv), firstDifference(got, s.csv))
	}
}

func firstDifference(a, b string) string {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	return fmt.Sprintf("they differ at byte %d: %.60q, %.60q", i, a[i:], b[i:])
}
