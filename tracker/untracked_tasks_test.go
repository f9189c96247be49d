package tracker

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/environ"
)

func TestRunningTasks(t *testing.T) {
	procfs := t.TempDir()
	var pids []int
	for i, text := range []string{
		"", // a zombie
		"SLURM_JOB_ID=77\x00SLURM_STEP_ID=3\x00SLURM_LOCALID=0\x00",
		"SLURM_JOB_ID=77\x00SLURM_STEP_ID=3\x00SLURM_LOCALID=1\x00HOME=/\x00",
		"SLURM_JOB_ID=77\x00SLURM_STEP_ID=3\x00SLURM_LOCALID=1\x00",
		"SLURM_LOCALID=2\x00SLURM_JOB_ID=77\x00SLURM_STEP_ID=4\x00",
		"SLURM_LOCALID=3\x00SLURM_JOB_ID=78\x00SLURM_STEP_ID=3\x00",
		"SLURM_JOB_ID=77\x00SLURM_STEP_ID=3\x00",
		"SLURM_LOCALID=12\x00SLURM_JOB_ID=77\x00SLURM_STEP_ID=3", // cut off
	} {
		pid := 100 + i
		pids = append(pids, pid)
		if err := os.Mkdir(filepath.Join(procfs, strconv.Itoa(pid)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(procfs, strconv.Itoa(pid), "environ"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pids = append(pids, 99) // it has ended
	ours := environ.Env{"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "3", "SLURM_LOCALID": "0"}
	for _, tt := range []struct {
		pids []int
		here rt.Opt[uint64]
		want int
	}{
		{pids, rt.Some[uint64](13), 2},
		{pids, rt.None[uint64](), 2},
		{pids, rt.Some[uint64](2), 1}, // that is all: no other process is read
		{pids, rt.Some[uint64](1), 0},
		{pids[:2], rt.Some[uint64](13), 0},
		{nil, rt.None[uint64](), 0},
	} {
		if got := runningTasks(procfs, tt.pids, ours, tt.here); got != tt.want {
			t.Errorf("of %v of %v tasks: %d others run, want %d", tt.pids, tt.here, got, tt.want)
		}
	}
}

// A process that hangs with its memory locked does not block the end of the record.
func TestCountInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan int)
		n, err := countInTime(func() int { return <-answer })
		if err == nil {
			t.Errorf("a process that did not answer was counted: %d", n)
		}
		answer <- 1 // at last
	})
	if n, err := countInTime(func() int { return 3 }); n != 3 || err != nil {
		t.Errorf("counted %d, %v", n, err)
	}
	_, err := countInTime(func() int { panic("a hole in the map") })
	if err == nil || !strings.Contains(err.Error(), "a hole in the map") {
		t.Errorf("a panic is reported as %v", err)
	}
}
