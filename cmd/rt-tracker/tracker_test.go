package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/e2e/await"
	"github.com/resource-tracker/rt/slurm/environ"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/tracker"
)

// The test binary is also rt-tracker.
func TestMain(m *testing.M) {
	if os.Getenv("RT_TRACKER_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// site is what a tracker is started with.
type site struct {
	dir    string
	config string
	log    string
	run    rt.Run
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{dir: t.TempDir()}
	s.log = filepath.Join(s.dir, "rt.log")
	for _, d := range []string{"spool", "state"} {
		if err := os.Mkdir(filepath.Join(s.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.write(t, "")
	s.run = rt.Run{
		Identity: rt.Identity{
			// Another run of these tests on this kernel may make the cgroups of its node and its job.
			Cluster: "c", JobID: rt.Some(4_000_000_000 + rand.Uint64N(200_000_000)), Node: fmt.Sprintf("node-of-no-cluster-%d", rand.Uint32()),
			Start: time.Now().UTC().Truncate(time.Millisecond),
		},
		Allocation: rt.Allocation{
			UID:       rt.Some[uint64](54321),
			Scheduler: "slurm",
		},
	}
	return s
}

func (s *site) write(t *testing.T, more string) {
	t.Helper()
	s.config = filepath.Join(s.dir, "rt.toml")
	text := fmt.Sprintf("[spool]\ndir = %q\n[tracker]\nstate_dir = %q\n%s\n[log]\ntarget = %q\n",
		filepath.Join(s.dir, "spool"), filepath.Join(s.dir, "state"), more, s.log)
	if err := os.WriteFile(s.config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// mainEnv makes the test binary a tracker, which under -race waits no second at its end.
var mainEnv = []string{"RT_TRACKER_MAIN=1", "PATH=/usr/bin:/bin", "GORACE=atexit_sleep_ms=0"}

// start starts a tracker as rt-prolog does and returns what it said on descriptor 3.
func (s *site) start(t *testing.T, stdin string) (*exec.Cmd, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ready, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	cmd := exec.Command(self, "--config", s.config)
	cmd.Env = mainEnv
	cmd.Stdin = strings.NewReader(stdin)
	cmd.ExtraFiles = []*os.File{write}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, if all went well
	said, err := bufio.NewReader(ready).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return cmd, strings.TrimSuffix(said, "\n")
}

// environ is the environment of the job's Prolog.
func (s *site) environ() environ.Env {
	return environ.Env{
		"SLURM_CLUSTER_NAME": s.run.Cluster, "SLURM_JOB_ID": fmt.Sprint(s.run.JobID.Or(0)), "SLURM_JOB_UID": fmt.Sprint(s.run.UID.Or(0)),
		"SLURM_JOB_GID": "0", "SLURM_SCRIPT_CONTEXT": "prolog_slurmd",
	}
}

// stdin is what rt-prolog sends.
func (s *site) stdin() string { return string(environ.PrologText(s.environ(), &s.run)) }

func (s *site) spooled(t *testing.T) (rt.Run, []rt.Reason, []rt.Event) {
	t.Helper()
	r, err := spool.Open(filepath.Join(s.dir, "spool", s.run.FileStem()+".db"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if problems := r.Verify(t.Context()); len(problems) > 0 {
		t.Errorf("verify: %v", problems)
	}
	last, err := r.LastSeq()
	if err != nil {
		t.Fatal(err)
	}
	var reasons []rt.Reason
	for snap, err := range r.Snapshots(t.Context(), 1, last) {
		if err != nil {
			t.Fatal(err)
		}
		reasons = append(reasons, snap.Reason)
		if snap.Job.Phase != rt.JobPending || snap.Job.CPUUsage.Valid() {
			t.Errorf("snapshot %d: phase %v, usage %v of a job without a cgroup", snap.Seq, snap.Job.Phase, snap.Job.CPUUsage)
		}
	}
	events, err := r.Events()
	if err != nil {
		t.Fatal(err)
	}
	return r.Run(), reasons, events
}

// A job that never gets a cgroup is recorded from the start to the Epilog, which
// says how it ended.
func TestStopWithExit(t *testing.T) {
	s := newSite(t)
	cmd, said := s.start(t, s.stdin())
	if said != "ready" {
		t.Fatalf("the tracker said %q", said)
	}
	exit := `{"exit_code":7,"exit_signal":0,"derived_exit":null,"outcome":"failed","outcome_source":"epilog","time":"2026-03-01T12:00:00Z"}`
	name := fmt.Sprintf("%d@%s.exit", s.run.JobID.Or(0), s.run.Node)
	if err := os.WriteFile(filepath.Join(s.dir, "state", name), []byte(exit), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the tracker ended with %v", err)
	}
	run, reasons, _ := s.spooled(t)
	if run.State != rt.StateEnded || run.Outcome != rt.OutcomeFailed || run.ExitCode != rt.Some[int64](7) {
		t.Errorf("state %s, outcome %s, exit %v", run.State, run.Outcome, run.ExitCode)
	}
	if run.BootID == "" || run.TrackerVersion != rt.Version || run.Interval != 10 {
		t.Errorf("boot %q, version %q, interval %v", run.BootID, run.TrackerVersion, run.Interval)
	}
	if len(reasons) < 2 || reasons[0] != rt.ReasonFirst || reasons[len(reasons)-1] != rt.ReasonStop {
		t.Errorf("snapshots: %v", reasons)
	}
	if log, err := os.ReadFile(s.log); err == nil {
		t.Errorf("logged though nothing went wrong: %s", log)
	}
}

// No Epilog reports how the job ended: the outcome is unknown and the ledger has the reason.
func TestStopWithoutExit(t *testing.T) {
	s := newSite(t)
	cmd, said := s.start(t, s.stdin())
	if said != "ready" {
		t.Fatalf("the tracker said %q", said)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	run, _, events := s.spooled(t)
	if run.State != rt.StateEnded || run.Outcome != rt.OutcomeUnknown || run.ExitCode.Valid() {
		t.Errorf("state %s, outcome %s, exit %v", run.State, run.Outcome, run.ExitCode)
	}
	found := false
	for _, e := range events {
		found = found || e.Kind == "tracker" && e.Name == "stop" && e.Status == "absent"
	}
	if !found {
		t.Errorf("no event says that no Epilog came: %v", events)
	}
}

// An Epilog that comes while the tracker still starts has its run written and ended.
func TestStopWhileItStarts(t *testing.T) {
	s := newSite(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "--config", s.config)
	cmd.Env = mainEnv
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, if all went well
	// More than a pipe holds: once that is written, it is being read. It is no variable, because it has no name.
	if _, err := io.WriteString(stdin, strings.Repeat(" ", 256<<10)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(stdin, "\x00"+s.stdin()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(stdin.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	if run, reasons, _ := s.spooled(t); run.State != rt.StateEnded || len(reasons) < 2 {
		t.Errorf("state %s, snapshots %v", run.State, reasons)
	}
}

// On a busy node the Epilog of a short job can stop the tracker before the tracker handles its
// signal. rt-prolog blocks SIGUSR1, so the run is written and ended, and its ledger has the reason.
func TestStopBeforeItBegins(t *testing.T) {
	s := newSite(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("%d@%s.exit", s.run.JobID.Or(0), s.run.Node)
	if err := os.WriteFile(filepath.Join(s.dir, "state", name), []byte(exitSeven), 0o600); err != nil {
		t.Fatal(err)
	}
	// The shell stops itself: the signal is pending when the tracker begins.
	cmd := exec.Command("env", "--block-signal=USR1", "bash", "-c", `kill -USR1 $$; exec "$0" "$@"`, self, "--config", s.config)
	cmd.Env = mainEnv
	cmd.Stdin = strings.NewReader(s.stdin())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the tracker ended with %v: %s", err, out)
	}
	run, reasons, events := s.spooled(t)
	if run.State != rt.StateEnded || run.Outcome != rt.OutcomeFailed || run.ExitCode != rt.Some[int64](7) || len(reasons) == 0 {
		t.Errorf("state %s, outcome %s, exit %v, snapshots %v", run.State, run.Outcome, run.ExitCode, reasons)
	}
	if !slices.ContainsFunc(events, func(e rt.Event) bool {
		return e.Kind == "job" && e.Name == "tracker" && e.Status == "missed" && strings.Contains(e.Detail, "before its tracker began")
	}) {
		t.Errorf("no event gives the reason: %v", events)
	}
}

// What keeps a tracker from tracking is one sentence for the Prolog, and no file.
func TestCannotTrack(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(t *testing.T, s *site)
		stdin  string
		want   string
	}{
		"spool missing": {change: func(t *testing.T, s *site) {
			if err := os.Remove(filepath.Join(s.dir, "spool")); err != nil {
				t.Fatal(err)
			}
		}, want: "spool"},
		"unknown key": {change: func(t *testing.T, s *site) { s.write(t, "intervall = \"1s\"") }, want: "rt.toml:5: unknown key tracker.intervall"},
		"no run":      {stdin: "hello", want: "not what rt-prolog writes: it is not complete (RT_START is not its last variable)"},
		"incomplete":  {stdin: "SLURMD_NODENAME=n1\x00RT_START=1\x00", want: "SLURM_JOB_ID is not set"},
		"already open": {change: func(t *testing.T, s *site) {
			s.run.State = rt.StateRunning
			w, err := spool.Create(filepath.Join(s.dir, "spool"), s.run, rt.Host{}, spool.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := w.Close(); err != nil {
					t.Error(err)
				}
			})
		}, want: "already"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			if tc.change != nil {
				tc.change(t, s)
			}
			stdin := tc.stdin
			if stdin == "" {
				stdin = s.stdin()
			}
			cmd, said := s.start(t, stdin)
			err := cmd.Wait()
			if text, ok := strings.CutPrefix(said, "error: "); !ok || !strings.Contains(text, tc.want) {
				t.Errorf("the tracker said %q, want an error with %q", said, tc.want)
			}
			var failed *exec.ExitError
			if !errors.As(err, &failed) || failed.ExitCode() != 1 {
				t.Errorf("the tracker ended with %v, want status 1", err)
			}
			if log, err := os.ReadFile(s.log); err == nil {
				t.Errorf("logged what the Prolog has received: %s", log)
			}
		})
	}
}

// If the job cannot be watched, the spool file that was created meanwhile is deleted.
func TestNoJobWatch(t *testing.T) {
	s := newSite(t)
	dir := filepath.Join(s.dir, "spool")
	cfg, err := config.Load(s.config)
	if err != nil {
		t.Fatal(err)
	}
	tr := &jobTracker{cfg: cfg, log: slog.New(slog.DiscardHandler), id: s.run, writer: tracker.NewRunFile()}
	tr.id.State = rt.StateRunning
	fault := errors.New("no cgroup is mounted")
	err = tr.open(func() error {
		return errors.Join(fault, await.Changed(dir, func() bool {
			files, err := filepath.Glob(filepath.Join(dir, "*.db"))
			return err == nil && len(files) > 0
		}))
	})
	if !errors.Is(err, fault) || tr.writer.Wait() != nil {
		t.Errorf("open returned %v, want %v; creating the spool file: %v", err, fault, tr.writer.Wait())
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		t.Errorf("%s is left in the spool", f.Name())
	}
}
