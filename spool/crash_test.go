package spool

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/resource-tracker/rt"
)

// victimDir tells a copy of the test binary to write a run there until it is killed.
const victimDir = "RT_SPOOL_TEST_VICTIM_DIR"

func TestMain(m *testing.M) {
	if os.Getenv(actAs) != "" {
		if err := act(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if dir := os.Getenv(victimDir); dir != "" {
		if err := victim(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// victim writes a machine's snapshots and prints the number of each that is committed.
func victim(dir string) error {
	w, err := Create(dir, testRun(), rt.Host{}, Options{CommitRows: 3})
	if err != nil {
		return err
	}
	m := newMachine(4, 1)
	for {
		s := m.next()
		if err := w.Put(s); err != nil {
			return err
		}
		if s.Seq%7 == 0 {
			w.Event(rt.Event{Time: start, Kind: "job", Name: strconv.FormatInt(s.Seq, 10)})
			fmt.Println(s.Seq)
		}
	}
}

func TestKilledWriterLosesNothingThatWasCommitted(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		dir := t.TempDir()
		committed := killAfter(t, dir, 1+rng.IntN(60))
		entries, err := List(dir)
		if err != nil || len(entries) != 1 {
			t.Fatalf("after the kill: %+v, %v", entries, err)
		}
		if e := entries[0]; e.Err != nil || e.Live || e.Run.State != rt.StateRunning || e.Snapshots < committed {
			t.Fatalf("after %d were committed: %+v", committed, e)
		}
		examine(t, entries[0].Path, committed)
	}
}

// killAfter starts a victim, waits for some lines of it, kills it wherever it is by
// then, and returns the last number that it said is committed.
func killAfter(t *testing.T, dir string, lines int) int64 {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), victimDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var last int64
	scanner := bufio.NewScanner(out)
	for range lines {
		if !scanner.Scan() {
			t.Fatalf("the victim ended by itself: %v", cmd.Wait())
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for ok := true; ok; ok = scanner.Scan() {
		if n, err := strconv.ParseInt(scanner.Text(), 10, 64); err == nil {
			last = n
		}
	}
	cmd.Wait() // it was killed: the error says so
	return last
}

// examine opens what a victim left, compares it with what the machine showed, and
// closes it as lost.
func examine(t *testing.T, path string, committed int64) {
	t.Helper()
	r := mustOpen(t, path)
	for _, p := range r.Verify(t.Context()) {
		t.Errorf("verify: %s", p.What)
	}
	m := newMachine(4, 1)
	for s, err := range r.Snapshots(t.Context(), 1, 0) {
		if err != nil {
			t.Fatal(err)
		}
		same(t, clone(m.next()), s)
	}
	if m.snap.Seq < committed {
		t.Errorf("%d of %d snapshots are there", m.snap.Seq, committed)
	}
	events, err := r.Events()
	if err != nil || int64(len(events)) < committed/7 {
		t.Errorf("%d events after %d snapshots, %v", len(events), committed, err)
	}
	if err := r.CloseLost(rt.Exit{Time: start}, "boot-1"); err != nil {
		t.Fatal(err)
	}
	run := r.Run()
	if run.State != rt.StateEnded || run.Outcome != rt.OutcomeLost || run.OutcomeSource != "drain" ||
		run.End.UnixMicro() != m.snap.Wall/1000 {
		t.Errorf("closed as %+v", run)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, path)
}

// onlyFile asserts that the database stands alone in its directory.
func onlyFile(t *testing.T, path string) {
	t.Helper()
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() != filepath.Base(path) {
			t.Errorf("%s is left beside the spool file", f.Name())
		}
	}
}
