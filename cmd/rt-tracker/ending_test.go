package main

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/logging"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/slurm/environ"
	"github.com/resource-tracker/rt/slurm/launch"
	"github.com/resource-tracker/rt/slurm/layout"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/tracker"
)

// ending is a tracker of a run that is over, with snapshots that wait in memory.
type ending struct {
	*jobTracker
	site *site
}

const exitSeven = `{"exit_code":7,"exit_signal":0,"derived_exit":null,"outcome":"failed","outcome_source":"epilog","time":"2026-03-01T12:00:00Z"}`

// endSeries is the retry of a run's end in these tests.
var endSeries = tracker.Retry{First: time.Second, Longest: 30 * time.Second, Total: 5 * time.Minute}

func newEnding(t *testing.T) *ending {
	t.Helper()
	s := newSite(t)
	s.run.State = rt.StateRunning
	e := &ending{site: s, jobTracker: &jobTracker{
		log:   logging.New(logging.Places{Program: "rt-tracker", Target: s.log}).With("job", "job 1@n1"),
		state: launch.State{Dir: filepath.Join(s.dir, "state")}, id: s.run,
		environment: tracker.NewJobEnvironment(nil, s.run, nil, nil),
	}}
	return e
}

// begin makes the run's file and commits its first snapshot.
func (e *ending) begin(t *testing.T) {
	t.Helper()
	e.writer = tracker.NewRunFile()
	e.writer.Create(func() (*spool.Writer, error) {
		return spool.Create(filepath.Join(e.site.dir, "spool"), e.id, rt.Host{}, spool.Options{Notify: e.spoolFault})
	})
	if err := e.writer.Wait(); err != nil {
		t.Fatal(err)
	}
	e.put(t, 0, 1)
}

// put takes snapshots from..to-1, large enough to need room.
func (e *ending) put(t *testing.T, from, to int) {
	t.Helper()
	s := rt.Snapshot{CPUs: make([]rt.CPUReading, 64)}
	s.Job.Phase = rt.JobPending
	for i := from; i < to; i++ {
		s.Reason = rt.ReasonTick
		if i == 0 {
			s.Reason = rt.ReasonFirst
		}
		s.Boot, s.Wall = int64(i+1)*1e9, int64(i+1)*1e9
		for c := range s.CPUs {
			s.CPUs[c].CPU = c
			s.CPUs[c].Times.User = uint64(i*c) * 1_000_003
		}
		if err := e.writer.Put(&s); err != nil {
			t.Fatal(err)
		}
	}
}

func (e *ending) exit(t *testing.T) {
	t.Helper()
	name := fmt.Sprintf("%d@%s.exit", e.id.JobID.Or(0), e.id.Node)
	if err := os.WriteFile(filepath.Join(e.site.dir, "state", name), []byte(exitSeven), 0o600); err != nil {
		t.Fatal(err)
	}
}

// forget removes the exit, as the job's next Prolog does.
func (e *ending) forget(t *testing.T) {
	t.Helper()
	if err := e.state.RemoveExit(e.id.JobID.Or(0), e.id.Node); err != nil {
		t.Error(err)
	}
}

func (e *ending) complete(t *testing.T, snapshots int) {
	t.Helper()
	run, reasons, _ := e.site.spooled(t)
	if len(reasons) != snapshots || run.State != rt.StateEnded || run.Outcome != rt.OutcomeFailed || run.ExitCode != rt.Some[int64](7) {
		t.Errorf("%d snapshots, want %d; state %q, outcome %q, exit %v", len(reasons), snapshots, run.State, run.Outcome, run.ExitCode)
	}
	log, err := os.ReadFile(e.site.log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"waits for the disk", "the end of the run is written"} {
		if n := strings.Count(string(log), want); n != 1 {
			t.Errorf("the log says %d times %q, want once:\n%s", n, want, log)
		}
	}
}

// A disk is full when the job ends and has room again a minute later. All is written, although the
// Epilog's file is removed meanwhile.
func TestEndWaitsForAFullDisk(t *testing.T) {
	e := newEnding(t)
	dir := filepath.Join(e.site.dir, "spool")
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("needs root: mounts a tmpfs of 1 MiB (%v); the tests of package spool cover the rest", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	synctest.Test(t, func(t *testing.T) {
		e.begin(t)
		fill(t, ballast)
		e.put(t, 1, 200)
		e.exit(t)
		go func() {
			time.Sleep(time.Minute)
			e.forget(t)
			if err := os.Remove(ballast); err != nil {
				t.Error(err)
			}
		}()
		if err := e.finish(true, environ.Evidence{}, endSeries); err != nil {
			t.Error(err)
		}
	})
	e.complete(t, 200)
}

func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := 64 << 10; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// hold takes the write lock of the run's file, as another process would.
func (e *ending) hold(t *testing.T) (release func()) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+e.writer.Writer().Path()+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Another process writes to the file when the job ends; the Epilog comes meanwhile.
func TestEndWaitsForALockedFile(t *testing.T) {
	e := newEnding(t)
	synctest.Test(t, func(t *testing.T) {
		e.begin(t)
		e.put(t, 1, 5)
		release := e.hold(t)
		go func() {
			time.Sleep(time.Second / 2)
			e.exit(t)
			release()
		}()
		if err := e.finish(false, environ.Evidence{}, endSeries); err != nil {
			t.Error(err)
		}
	})
	e.complete(t, 5)
}

// When the time is over the run is left for rt-spool drain, and the log says so.
func TestEndGivesUp(t *testing.T) {
	if testing.Short() {
		t.Skip("in make check: SQLite waits for a lock three times a second")
	}
	e := newEnding(t)
	synctest.Test(t, func(t *testing.T) {
		e.begin(t)
		e.put(t, 1, 5)
		release := e.hold(t)
		p := tracker.Retry{First: time.Second, Longest: time.Second, Total: time.Second}
		err := e.finish(true, environ.Evidence{}, p)
		if err == nil || !strings.Contains(err.Error(), "given up after 1s") || !strings.Contains(err.Error(), "4 snapshots are lost") {
			t.Errorf("finish: %v", err)
		}
		release()
	})
	entries, err := spool.List(filepath.Join(e.site.dir, "spool"))
	if err != nil || len(entries) != 1 || entries[0].Live || entries[0].Run.State != rt.StateRunning || entries[0].Snapshots != 1 {
		t.Errorf("left is %+v, %v", entries, err)
	}
	if _, err := os.Stat(filepath.Join(e.site.dir, "spool", e.id.FileStem()+".lock")); err != nil {
		t.Errorf("the sign that the run was not closed: %v", err)
	}
}

// A job that never gets a cgroup and has no Epilog does not keep its tracker.
func TestWaitEndsWithoutAJob(t *testing.T) {
	s := newSite(t)
	cfg, err := config.Load(s.config)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := newJobTracker(cfg, s.run, nil, logging.New(logging.Places{Program: "rt-tracker", Target: s.log}).Logger)
	if err != nil {
		t.Fatal(err)
	}
	if stopped := tr.wait(nil, nil, time.Millisecond); stopped {
		t.Error("it stopped without a signal")
	}
	tr.end(false)
	run, _, events := s.spooled(t)
	if run.State != rt.StateEnded || run.Outcome != rt.OutcomeUnknown {
		t.Errorf("state %q, outcome %q", run.State, run.Outcome)
	}
	if len(events) != 1 || events[0].Name != "epilog" || events[0].Status != "absent" || !strings.Contains(events[0].Detail, "no cgroup") {
		t.Errorf("the ledger: %+v", events)
	}
}

// Slurm has left the cgroup of a job without a process: with its Epilog the record is complete.
func TestCgroupIsLeft(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a cgroup")
	}
	for name, want := range map[string]rt.Reason{"Epilog": rt.ReasonLast, "signal": rt.ReasonStop} {
		t.Run(name, func(t *testing.T) {
			e := newEnding(t)
			makeCgroup(t, &e.site.run)
			cmd, said := e.site.start(t, e.site.stdin())
			if said != "ready" {
				t.Fatalf("the tracker said %q", said)
			}
			if name == "Epilog" {
				e.exit(t)
			}
			if err := cmd.Process.Signal(syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			r, err := spool.Open(filepath.Join(e.site.dir, "spool", e.site.run.FileStem()+".db"))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			seq, err := r.LastSeq()
			if err != nil {
				t.Fatal(err)
			}
			for s, err := range r.Snapshots(t.Context(), seq, seq) {
				if err != nil || s.Reason != want || s.Job.Phase != rt.JobPresent {
					t.Errorf("the last reading is %v, the job %v, %v; want %v", s.Reason, s.Job.Phase, err, want)
				}
			}
		})
	}
}

// makeCgroup makes the cgroup of a job in one hierarchy, without a process.
func makeCgroup(t *testing.T, run *rt.Run) {
	t.Helper()
	mounts, err := cgroupfs.ReadMounts(procRoot)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range layout.Candidates(run, mounts) {
		for controller, dir := range c.Dirs {
			isOne := controller == "cpuacct" || controller == cgroupfs.Unified
			if !isOne || strings.Contains(dir, "*") {
				continue
			}
			made := makeDirs(t, dir)
			t.Cleanup(func() {
				for i, d := range made {
					err := os.Remove(d)
					isShared := i > 0 && errors.Is(err, syscall.EBUSY) // another machine on this kernel has a cgroup in it
					if err != nil && !isShared {
						t.Error(err)
					}
				}
			})
			return
		}
	}
	t.Skip("no cgroup hierarchy for a job")
}

// makeDirs makes a directory and its missing parents, and returns them, the deepest first.
func makeDirs(t *testing.T, dir string) (made []string) {
	t.Helper()
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	above := makeDirs(t, filepath.Dir(dir))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no cgroup can be made: %v", err)
	}
	return append([]string{dir}, above...)
}

// hanging is a source that never returns from a reading.
type hanging struct{ collect.Source }

func (hanging) Name() string              { return "hanging" }
func (hanging) Read(s *rt.Snapshot) error { select {} }

// A reading that hangs for ever keeps no run from its end.
func TestEndsWithoutItsLastReading(t *testing.T) {
	s := newSite(t)
	cfg, err := config.Load(s.config)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Tracker.Grace.Duration = time.Millisecond
	tr, err := newJobTracker(cfg, s.run, nil, logging.New(logging.Places{Program: "rt-tracker", Target: s.log}).Logger)
	if err != nil {
		t.Fatal(err)
	}
	tr.sources = append(tr.sources, hanging{})
	stop := make(chan os.Signal, 1)
	stop <- syscall.SIGTERM
	if err := tr.run(&ready{}, stop); err != nil {
		t.Error(err)
	}
	run, _, events := s.spooled(t)
	if run.State != rt.StateEnded || !slices.ContainsFunc(events, func(e rt.Event) bool { return e.Name == "recording" && e.Status == "failed" }) {
		t.Errorf("state %q, the ledger: %+v", run.State, events)
	}
	if live, err := spool.Live(tr.writer.Writer().Path()); live || err != nil {
		t.Errorf("its lock is held: %v, %v", live, err)
	}
	if err := tr.job.Close(); err != nil {
		t.Error(err)
	}
}
