package tracker

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt/internal/cgroupfs"
)

// The thread that watches a cgroup is as urgent for one that is found late as for one that is known
// at the start.
func TestLateWatcherIsOnTime(t *testing.T) {
	setNice(19, 0)
	t.Cleanup(RaisePriority)
	const zero = 20
	nice := func(thread int) int {
		p, err := syscall.Getpriority(syscall.PRIO_PROCESS, thread)
		if err != nil {
			t.Fatal(err)
		}
		return zero - p
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), 0); err != nil {
		t.Skipf("no thread may take its priority back here: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "system.slice/slurmstepd.scope/job_2")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cpu.stat"), []byte("usage_usec 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w := newJobWatch("/proc", func(err error) { t.Error(err) })
	if err := w.watch([]cgroupfs.Candidate{{Layout: "slurm-v2", Version: 2, Dirs: map[string]string{cgroupfs.Unified: dir}}}, nil); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	<-w.found
	if n := nice(w.current().Thread()); n != 0 {
		t.Errorf("its nice value is %d", n)
	}
}

// A thread that reads the job has normal priority meanwhile, and its own before and after.
func TestReadingRaisesItsThread(t *testing.T) {
	runtime.LockOSThread() // for good: the thread, with its priority, ends with the goroutine
	t.Cleanup(RaisePriority)
	restore, ok := raiseForReading()
	if !ok {
		t.Error("a thread of normal priority cannot read the job")
	}
	restore()
	nice := func() int {
		const zero = 20
		p, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		if err != nil {
			t.Fatal(err)
		}
		return zero - p
	}
	LowerPriority(0)
	restore, ok = raiseForReading()
	if !ok {
		if n := nice(); n != lowestPriority {
			t.Errorf("without permission the nice value is %d", n)
		}
		t.Skip("no thread may take its priority back here")
	}
	if n := nice(); n != 0 {
		t.Errorf("during the reading the nice value is %d", n)
	}
	restore()
	if n := nice(); n != lowestPriority {
		t.Errorf("after the reading the nice value is %d", n)
	}
	RaisePriority()
	restore, ok = raiseForReading()
	if !ok || nice() != 0 {
		t.Errorf("at the end of the run: ok %t, nice value %d", ok, nice())
	}
	restore()
	if n := nice(); n != 0 {
		t.Errorf("after the last reading the nice value is %d", n)
	}
}
