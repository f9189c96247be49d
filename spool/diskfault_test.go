package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/faultvfs"
	"github.com/resource-tracker/rt/e2e/random"
)

// faultRows is how many snapshots the runs of these tests have, and faultCommit how many
// of them are committed together.
const faultRows, faultCommit = 24, 4

// faultyDisk puts the databases below a new directory on a simulated disk.
func faultyDisk(t *testing.T) (*faultDisk, string) {
	t.Helper()
	base := t.TempDir()
	disk, err := installDisk(base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(faultvfs.Remove)
	return disk, base
}

// faultRun is a run on such a disk, and the events that Notify got.
type faultRun struct {
	w        *Writer
	m        *machine
	list     []*rt.Snapshot
	notified []rt.Event
}

// newFaultRun makes a run with a checkpoint after about every second commit.
func newFaultRun(t *testing.T, dir string) *faultRun {
	t.Helper()
	f := &faultRun{m: newMachine(4, 1)}
	w, err := Create(dir, testRun(), rt.Host{}, Options{CommitRows: faultCommit, QuotaNode: 1 << 20, Notify: func(e rt.Event) { f.notified = append(f.notified, e) }})
	if err != nil {
		t.Fatal(err)
	}
	f.w = w
	return f
}

// put puts one snapshot, which never fails.
func (f *faultRun) put(t *testing.T) {
	t.Helper()
	f.list = append(f.list, clone(f.m.next()))
	if err := f.w.Put(f.list[len(f.list)-1]); err != nil {
		t.Fatal(err)
	}
}

// Every operation of the disk fails, with every error. The run stays in memory, and is whole when
// the disk takes it again. If the disk never does, all that was committed can be read.
func TestEveryFaultOfTheDisk(t *testing.T) {
	disk, base := faultyDisk(t)
	lasts := []int{1, 60, 0} // operations; 0: until the tracker gives up
	seen := map[bool]int{}   // whether the ledger has it
	for _, kind := range []faultKind{ioError, noSpace, readOnly, shortWrite} {
		step := faultStep()
		if kind != ioError { // the places are the same
			step *= 2
		}
		for at := firstFault(t, step); ; at += step {
			dir := filepath.Join(base, fmt.Sprintf("%d-%d", kind, at))
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			disk.Fail(faultPlan{})
			f := newFaultRun(t, dir)
			plan := faultPlan{Kind: kind, At: at, For: lasts[at%len(lasts)]}
			disk.Fail(plan)
			hit := f.onFaultyDisk(t, disk, plan)
			if !hit {
				break
			}
			seen[len(f.notified) > 0]++
			over(t, disk, dir)
			if t.Failed() {
				return
			}
		}
	}
	isRare := seen[true] == 0 || seen[false] == 0
	if isRare && !testing.Short() {
		t.Errorf("the ledger has %d failures and not %d others: only failures of a checkpoint may be missing", seen[true], seen[false])
	}
	t.Logf("%d faults are in the ledger, %d cost nothing", seen[true], seen[false])
}

// faultStep leaves most of the places out in make test.
func faultStep() int { return sized(1, 25) }

// firstFault is the first place of a fault, if there is one at each step.
func firstFault(t *testing.T, step int) int { return 1 + random.Below(t, step) }

// onFaultyDisk writes the run and says whether the fault was met.
func (f *faultRun) onFaultyDisk(t *testing.T, disk *faultDisk, plan faultPlan) (hit bool) {
	t.Helper()
	for range faultRows {
		f.put(t)
	}
	f.w.Event(rt.Event{Time: start, Kind: "job", Name: "epilog"})
	err := f.w.End(testRun())
	for tries := 0; err != nil && !errors.Is(err, ErrClosed) && tries < 100; tries++ { // as rt-tracker does
		err = f.w.End(testRun())
	}
	committed := f.w.out.seq
	if closed := f.w.Close(); err == nil && closed != nil {
		t.Errorf("%+v: Close after End: %v", plan, closed)
	}
	_, failed, first := disk.Count()
	what := fmt.Sprintf("%s, operation %d, for %d", first, plan.At, plan.For)
	if plan.For > 0 && err != nil && !errors.Is(err, ErrClosed) {
		t.Errorf("%s: the disk has recovered, and the run has not ended: %v", what, err)
	}
	if err == nil || errors.Is(err, ErrClosed) {
		committed = faultRows
	}
	for i, e := range f.notified {
		if want := []string{"failed", "ok"}[i%2]; e.Status != want || e.Status == "failed" && !aboutDisk(e.Detail) {
			t.Errorf("%s: Notify got %+v", what, f.notified)
		}
	}
	disk.Fail(faultPlan{})
	f.whole(t, what, f.w.Path(), committed)
	return failed > 0
}

// aboutDisk says whether an error of SQLite is about a disk.
func aboutDisk(text string) bool {
	for _, word := range []string{"disk I/O error", "disk is full", "unable to open", "readonly", "no space", "input/output", "read-only"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// whole examines the file that a run has left: it is sound and holds the run's first
// snapshots, least of them at least.
func (f *faultRun) whole(t *testing.T, what, path string, least int64) (stored int64) {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return 0
	}
	problems := r.Verify(t.Context())
	for s, err := range r.Snapshots(t.Context(), 1, 0) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
			break
		}
		stored++
		same(t, f.list[stored-1], s)
	}
	noLog := r.log.isMissing
	if err := errors.Join(r.CloseLost(rt.Exit{Time: start}, "boot-2"), r.Close()); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if stored < least || stored > int64(len(f.list)) {
		t.Errorf("%s: %d of %d snapshots are there, and %d were safe", what, stored, len(f.list), least)
	}
	if noLog && len(problems) == 1 && strings.Contains(problems[0].What, "WAL") {
		problems = nil
	}
	if len(problems) > 0 {
		t.Errorf("%s: verify: %v", what, problems)
	}
	files, err := filepath.Glob(path + "-*")
	if err != nil || len(files) > 0 {
		t.Errorf("%s: next to the file are %v, %v", what, files, err)
	}
	return stored
}

// A run that cannot be begun leaves nothing, and can be begun when the disk takes it.
func TestCreateOnAFaultyDisk(t *testing.T) {
	disk, dir := faultyDisk(t)
	for _, kind := range []faultKind{ioError, noSpace, shortWrite} {
		for at := firstFault(t, faultStep()); ; at += faultStep() {
			disk.Fail(faultPlan{Kind: kind, At: at})
			w, err := Create(dir, testRun(), rt.Host{}, Options{})
			_, failed, first := disk.Count()
			disk.Fail(faultPlan{})
			switch {
			case failed == 0 && err != nil:
				t.Fatalf("operation %d: no fault, and %v", at, err)
			case err == nil: // what failed was not needed
				if err := w.End(testRun()); err != nil {
					t.Errorf("%s, operation %d: %v", first, at, err)
				}
				onlyFile(t, w.Path())
				if err := os.Remove(w.Path()); err != nil {
					t.Fatal(err)
				}
			case !strings.Contains(err.Error(), dir) || !aboutDisk(err.Error()):
				t.Errorf("%s, operation %d: the error does not say what: %v", first, at, err)
			}
			files, err := os.ReadDir(dir)
			if err != nil || len(files) > 0 {
				t.Fatalf("%s, operation %d: %v is left, %v", first, at, files, err)
			}
			if failed == 0 {
				break
			}
		}
	}
}
