package spool

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool/internal/faultvfs"
)

// after returns a directory with what the disk holds when the power fails now.
func after(t *testing.T, disk *faultvfs.Disk, rng *rand.Rand) string {
	t.Helper()
	dir := t.TempDir()
	if err := disk.PowerFailure(dir, rng); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The power fails at every operation of the disk, and of what was not synced any part is
// left: the file is sound and holds all that was committed before the log was last
// brought into the database.
func TestPowerFailureOfATrackedRun(t *testing.T) {
	disk, base := faultyDisk(t)
	rng := rand.New(rand.NewPCG(5, 6))
	most, withoutLog := int64(0), 0
	for at := 1; ; at += faultStep() {
		dir := filepath.Join(base, fmt.Sprint(at))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		disk.Fail(faultvfs.Plan{})
		f := newFaultRun(t, dir)
		disk.Fail(faultvfs.Plan{At: at})
		failed, safe := 0, int64(0)
		for i := 0; i < faultRows && failed == 0; i++ {
			syncs, committed := disk.Syncs(), f.w.enc.state.seq
			f.put(t)
			if disk.Syncs() > syncs {
				safe = committed
			}
			_, failed, _ = disk.Count()
		}
		if failed == 0 && f.w.End(testRun()) == nil {
			safe = faultRows
		}
		_, failed, first := disk.Count()
		image := after(t, disk, rng)
		f.w.Close() // the machine is off; this only lets go
		disk.Fail(faultvfs.Plan{})
		if failed == 0 {
			break
		}
		path := filepath.Join(image, filepath.Base(f.w.Path()))
		if !exists(path + "-wal") {
			withoutLog++
		}
		stored := f.whole(t, fmt.Sprintf("%s, operation %d", first, at), path, safe)
		if most = max(most, int64(len(f.list))-stored); t.Failed() {
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	if most == 0 || most > 4*faultCommit || withoutLog == 0 && faultStep() == 1 {
		t.Errorf("up to %d snapshots were lost, and %d logs", most, withoutLog)
	}
	t.Logf("up to %d snapshots were lost, of %d that are committed together; %d logs were gone", most, faultCommit, withoutLog)
}

// Of the ledger of deliveries nothing is lost: what was written down before something was
// sent is there after a power failure.
func TestPowerFailureOfALedger(t *testing.T) {
	good := endedFile(t, 40)
	disk, base := faultyDisk(t)
	rng := rand.New(rand.NewPCG(7, 8))
	sum := strings.Repeat("0", 64)
	steps := []func(*Reader) error{
		func(r *Reader) error { return r.SaveRegistration(rt.Registration{Endpoint: "e", IntentAt: start}) },
		func(r *Reader) error {
			return r.SealBatch(rt.Batch{Number: 1, FirstSeq: 2, LastSeq: 20, Rows: 19, SHA256: sum, Key: "a", SealedAt: start})
		},
		func(r *Reader) error { return r.MarkUploaded(1, start) },
		func(r *Reader) error {
			return r.SealBatch(rt.Batch{Number: 2, FirstSeq: 21, LastSeq: 40, Rows: 20, SHA256: sum, Key: "b", SealedAt: start})
		},
		func(r *Reader) error { return r.MarkUploaded(2, start.Add(time.Second)) },
		func(r *Reader) error { return r.MarkDelivered(start) },
	}
	for _, mode := range []os.FileMode{0o600, 0o640} { // the second: others may read it
		for at := 1; ; at++ {
			path := filepath.Join(base, fmt.Sprintf("%o-%d.db", mode, at))
			if err := errors.Join(os.WriteFile(path, good, mode), os.Chmod(path, mode)); err != nil {
				t.Fatal(err)
			}
			disk.Fail(faultvfs.Plan{At: at})
			done := 0
			r, err := Open(path)
			for err == nil && done < len(steps) {
				if err = steps[done](r); err == nil {
					done++
				}
			}
			_, failed, first := disk.Count()
			image := after(t, disk, rng)
			if r != nil {
				r.Close() // the machine is off
			}
			disk.Fail(faultvfs.Plan{})
			if failed == 0 {
				if files, err := filepath.Glob(path + "-*"); err != nil || len(files) > 0 {
					t.Errorf("beside the file are %v, %v", files, err)
				}
				break
			}
			what := fmt.Sprintf("%s, operation %d", first, at)
			if got := ledgerSteps(t, what, filepath.Join(image, filepath.Base(path))); got < done || got > done+1 {
				t.Errorf("%s: %d steps were done, and %d are there", what, done, got)
			}
			if err := removeAll(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// removeAll removes a database with what stands beside it.
func removeAll(path string) error {
	files, err := filepath.Glob(path + "*")
	for _, f := range files {
		err = errors.Join(err, os.Remove(f))
	}
	return err
}

// ledgerSteps is how many steps of a delivery a file has.
func ledgerSteps(t *testing.T, what, path string) (n int) {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return 0
	}
	defer r.Close()
	for _, p := range r.Verify(t.Context()) {
		t.Errorf("%s: verify: %s", what, p.What)
	}
	_, registered, err := r.Registration()
	batches, err2 := r.Batches()
	delivered, err3 := r.DeliveredAt()
	if err := errors.Join(err, err2, err3); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	n = b2i(registered) + b2i(!delivered.IsZero())
	for _, b := range batches {
		n += 1 + b2i(!b.UploadedAt.IsZero())
	}
	return n
}

// Thinning that the power or the disk breaks off changes no total.
func TestPowerFailureWhileThinning(t *testing.T) {
	good := endedFile(t, 1200)
	disk, base := faultyDisk(t)
	rng := rand.New(rand.NewPCG(9, 10))
	path := filepath.Join(base, "x.db")
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	before := columnSums(t, path)
	for at := 1; ; at += 149 * faultStep() {
		disk.Fail(faultvfs.Plan{At: at})
		r, err := Open(path)
		if err == nil {
			_, err = r.Thin(0)
		}
		_, failed, first := disk.Count()
		image := filepath.Join(after(t, disk, rng), "x.db")
		if r != nil {
			r.Close() // the machine is off
		}
		disk.Fail(faultvfs.Plan{})
		if failed == 0 {
			if err != nil {
				t.Error(err)
			}
			break
		}
		if err == nil && at == 1 {
			t.Errorf("%s, operation %d: no error", first, at)
		}
		for where, path := range map[string]string{"the power": image, "the disk": path} { // the second goes on
			r := mustOpen(t, path)
			for _, p := range r.Verify(t.Context()) {
				t.Errorf("%s, %s, operation %d: verify: %s", where, first, at, p.What)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			for name, v := range columnSums(t, path) {
				if before[name] != v {
					t.Errorf("%s, %s, operation %d: the sum of %s is %v, was %v", where, first, at, name, v, before[name])
				}
			}
		}
		if err := errors.Join(removeAll(path), os.WriteFile(path, good, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}
