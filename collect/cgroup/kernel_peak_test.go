package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/internal/procfile"
)

// TestKernelIntervalPeak compares the peak of an interval with the peak of the cgroup, on a
// kernel that can reset memory.peak. After a large process and a small one, the interval
// has the small one's peak.
func TestKernelIntervalPeak(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making cgroups takes root")
	}
	mounts, err := cgroupfs.ReadMounts("/proc")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(mounts.V2, fmt.Sprintf("rt-test-%d", os.Getpid()))
	if mounts.V2 == "" || os.WriteFile(filepath.Join(mounts.V2, "cgroup.subtree_control"), []byte("+memory"), 0) != nil {
		t.Skip("this machine has no memory controller of cgroup v2")
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	f := newJobFiles(2, nil, "")
	defer f.Close()
	f.peak.open(dir)
	if !f.peak.file.IsOpen() {
		t.Skip("this kernel cannot reset memory.peak (Linux 6.12)")
	}
	var buf procfile.Buffer
	var peaks [2]uint64
	for i, mib := range []int{64, 16} {
		// tail keeps a line without an end in memory.
		script := fmt.Sprintf("echo $$ >%s/cgroup.procs && head -c %dM /dev/zero | tail >/dev/null", dir, mib)
		if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var r rt.JobReading
		f.peak.readInto(&r, &buf)
		f.ReadDone()
		f.Written()
		peaks[i] = r.MemIntervalPeak.Or(0)
	}
	total, err := os.ReadFile(filepath.Join(dir, "memory.peak"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("peaks of the intervals: %d and %d bytes; of the cgroup: %s", peaks[0], peaks[1], total)
	if peaks[0] < 64<<20 || peaks[1] < 16<<20 || peaks[1] > 48<<20 {
		t.Errorf("peaks of the intervals: %d and %d bytes; 64 and 16 MiB were used", peaks[0], peaks[1])
	}
}
