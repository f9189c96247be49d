package spool

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/random"
)

// victimDir is the directory in which a copy of the test binary writes a run until it is killed.
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

// victimRows is how many snapshots a victim commits together.
const victimRows = 3

// victim writes a machine's snapshots and prints the number of each that is committed. Before it
// puts a snapshot, it counts it in a file that outlives it. With a quota it thins as well.
func victim(dir string) error {
	counter, err := os.OpenFile(filepath.Join(dir, "..", filepath.Base(dir)+".put"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := counter.Truncate(8); err != nil {
		return err
	}
	put, err := syscall.Mmap(int(counter.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	opts := Options{CommitRows: victimRows}
	if strings.HasSuffix(dir, "quota") {
		opts.QuotaRun = 200 << 10
	}
	w, err := Create(dir, testRun(), rt.Host{}, opts)
	if err != nil {
		return err
	}
	m := newMachine(4, 1)
	for {
		s := m.next()
		binary.NativeEndian.PutUint64(put, uint64(s.Seq))
		if err := w.Put(s); err != nil {
			return err
		}
		if s.Seq%7 == 0 {
			w.Event(rt.Event{Time: start, Kind: "job", Name: strconv.FormatInt(s.Seq, 10)})
			fmt.Println(s.Seq)
		}
	}
}

// A tracker that is killed at any moment, also while it thins, leaves a whole file. Only what it
// had not committed is lost.
func TestKilledWriterLosesNothingThatWasCommitted(t *testing.T) {
	const atOnce = 4
	kills := int64(sized(200, 4))
	base, seed := t.TempDir(), random.Seed(t)
	var thinnings atomic.Int64
	t.Run("kills", func(t *testing.T) {
		for worker := range atOnce {
			t.Run(strconv.Itoa(worker), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(seed, uint64(worker)))
				for i := range int(kills) / atOnce {
					dir := filepath.Join(base, fmt.Sprintf("%d-%d", worker, i))
					isThinned := (worker+i)%4 == 3
					if isThinned {
						dir += "-quota"
					}
					if err := os.Mkdir(dir, 0o700); err != nil {
						t.Fatal(err)
					}
					lines := 1 + rng.IntN(20)
					if isThinned {
						lines += 80 // until there is something to thin
					}
					thinnings.Add(killOnce(t, dir, lines, time.Duration(rng.IntN(2000))*time.Microsecond))
				}
			})
		}
	})
	if thinnings.Load() < kills/20 {
		t.Errorf("only %d of %d victims had thinned", thinnings.Load(), kills)
	}
}

// killOnce kills one victim and examines what it left. It returns 1 where that had
// been thinned.
func killOnce(t *testing.T, dir string, lines int, after time.Duration) int64 {
	t.Helper()
	committed := killAfter(t, dir, lines, after)
	text, err := os.ReadFile(filepath.Join(dir, "..", filepath.Base(dir)+".put"))
	if err != nil {
		t.Fatal(err)
	}
	put := int64(binary.NativeEndian.Uint64(text))
	entries, err := List(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("after the kill: %+v, %v", entries, err)
	}
	e := entries[0]
	if e.Err != nil || e.Live || e.Run.State != rt.StateRunning {
		t.Fatalf("after the kill: %+v", e)
	}
	return examine(t, e.Path, committed, put)
}

// killAfter starts a victim, waits for some lines of it and a little more, and kills it. It returns
// the last number that the victim printed.
func killAfter(t *testing.T, dir string, lines int, after time.Duration) int64 {
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
	time.Sleep(after) // any moment will do
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
// closes it as lost. It returns 1 where snapshots were thinned.
func examine(t *testing.T, path string, committed, put int64) int64 {
	t.Helper()
	r := mustOpen(t, path)
	for _, p := range r.Verify(t.Context()) {
		t.Errorf("verify: %s", p.What)
	}
	m := newMachine(4, 1)
	n := int64(0)
	for s, err := range r.Snapshots(t.Context(), 1, 0) {
		if err != nil {
			t.Fatal(err)
		}
		peak := uint64(0) // of the snapshots that were thinned before this one, too
		for m.snap.Seq < s.Seq {
			m.next()
			peak = max(peak, m.snap.Job.MemIntervalPeak.Or(0))
		}
		want := clone(&m.snap)
		if want.Job.MemIntervalPeak.Valid() {
			want.Job.MemIntervalPeak.Set(peak)
		}
		same(t, want, s)
		n++
	}
	if m.snap.Seq < committed || put-m.snap.Seq > victimRows {
		t.Errorf("the last snapshot is number %d, of %d that were committed and %d that were put", m.snap.Seq, committed, put)
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
	if n < m.snap.Seq {
		return 1
	}
	return 0
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
			t.Errorf("%s is left next to the spool file", f.Name())
		}
	}
}
