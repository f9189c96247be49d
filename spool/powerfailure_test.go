package spool

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/random"
)

// after returns a directory, on the same disk, with what that holds of the directory from
// when the power fails now.
func after(t *testing.T, disk *faultDisk, from string, rng *rand.Rand) string {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(from), "image")
	if err == nil {
		err = disk.PowerFailure(from, dir, rng)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// over removes directories of such a disk.
func over(t *testing.T, disk *faultDisk, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		disk.Forget(dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// The power fails at every operation of the disk, and any part of what was not synced is left. The
// file is sound and holds every commit from before the last checkpoint.
func TestPowerFailureOfATrackedRun(t *testing.T) {
	disk, base := faultyDisk(t)
	rng := rand.New(rand.NewPCG(random.Seed(t), 6))
	most, withoutLog := int64(0), 0
	for at := firstFault(t, faultStep()); ; at += faultStep() {
		dir := filepath.Join(base, fmt.Sprint(at))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		disk.Fail(faultPlan{})
		f := newFaultRun(t, dir)
		disk.Fail(faultPlan{At: at})
		failed, safe := 0, int64(0)
		for i := 0; i < faultRows && failed == 0; i++ {
			syncs, committed := disk.Syncs(), f.w.out.seq
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
		image := after(t, disk, dir, rng)
		f.w.Close() // the machine is off; this only lets go
		disk.Fail(faultPlan{})
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
		over(t, disk, dir, image)
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
	rng := rand.New(rand.NewPCG(random.Seed(t), 8))
	sum := strings.Repeat("0", 64)
	steps := []func(*Reader) error{
		func(r *Reader) error {
			return r.Delivery().SaveRegistration(rt.Registration{Endpoint: "e", IntentAt: start})
		},
		func(r *Reader) error {
			return r.Delivery().SealBatch(rt.Batch{Number: 1, FirstSeq: 2, LastSeq: 20, Rows: 19, SHA256: sum, Key: "a", SealedAt: start})
		},
		func(r *Reader) error { return r.Delivery().MarkUploaded(1, start) },
		func(r *Reader) error {
			return r.Delivery().SealBatch(rt.Batch{Number: 2, FirstSeq: 21, LastSeq: 40, Rows: 20, SHA256: sum, Key: "b", SealedAt: start})
		},
		func(r *Reader) error { return r.Delivery().MarkUploaded(2, start.Add(time.Second)) },
		func(r *Reader) error { return r.Delivery().MarkDelivered(start) },
	}
	for _, mode := range []os.FileMode{0o600, 0o640} { // the second: others may read it
		for at := firstFault(t, faultStep()); ; at += faultStep() {
			dir := filepath.Join(base, fmt.Sprintf("%o-%d", mode, at))
			path := filepath.Join(dir, "x.db")
			if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(path, good, mode), os.Chmod(path, mode)); err != nil {
				t.Fatal(err)
			}
			disk.Fail(faultPlan{At: at})
			done := 0
			r, err := Open(path)
			for err == nil && done < len(steps) {
				if err = steps[done](r); err == nil {
					done++
				}
			}
			_, failed, first := disk.Count()
			image := after(t, disk, dir, rng)
			if r != nil {
				r.Close() // the machine is off
			}
			disk.Fail(faultPlan{})
			if failed == 0 {
				onlyFile(t, path)
				break
			}
			what := fmt.Sprintf("%s, operation %d", first, at)
			if got := ledgerSteps(t, what, filepath.Join(image, filepath.Base(path))); got < done || got > done+1 {
				t.Errorf("%s: %d steps were done, and %d are there", what, done, got)
			}
			over(t, disk, dir, image)
		}
	}
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
	_, registered, err := r.Delivery().Registration()
	batches, err2 := r.Delivery().Batches()
	delivered, err3 := r.Delivery().DeliveredAt()
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
	rng := rand.New(rand.NewPCG(random.Seed(t), 10))
	before := map[string]driver.Value(nil)
	step := 149 * faultStep()
	for at := firstFault(t, step); ; at += step {
		dir := filepath.Join(base, fmt.Sprint(at))
		path := filepath.Join(dir, "x.db")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(path, good, 0o600)); err != nil {
			t.Fatal(err)
		}
		if before == nil {
			before = lastValues(t, path)
		}
		disk.Fail(faultPlan{At: at})
		r, err := Open(path)
		if err == nil {
			_, err = r.Thin(0)
		}
		_, failed, first := disk.Count()
		image := after(t, disk, dir, rng)
		if r != nil {
			r.Close() // the machine is off
		}
		disk.Fail(faultPlan{})
		if failed == 0 {
			if err != nil {
				t.Error(err)
			}
			break
		}
		if err == nil && at == 1 {
			t.Errorf("%s, operation %d: no error", first, at)
		}
		for where, path := range map[string]string{"the power": filepath.Join(image, "x.db"), "the disk": path} { // the second goes on
			r := mustOpen(t, path)
			for _, p := range r.Verify(t.Context()) {
				t.Errorf("%s, %s, operation %d: verify: %s", where, first, at, p.What)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			for name, v := range lastValues(t, path) {
				if before[name] != v {
					t.Errorf("%s, %s, operation %d: the last %s is %v, was %v", where, first, at, name, v, before[name])
				}
			}
		}
		over(t, disk, dir, image)
	}
}
