//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pidsOf returns the processes of a Slurm job that run a program.
func pidsOf(t *testing.T, program string, jobID int64) []int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Appendf(nil, "SLURM_JOB_ID=%d\x00", jobID)
	var pids []int
	for _, d := range dirs {
		exe, err := os.Readlink(d + "/exe")
		if err != nil || exe != program {
			continue // it has ended, or runs another program
		}
		env, err := os.ReadFile(d + "/environ")
		if err != nil || !bytes.Contains(env, want) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(d)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// cpuOf returns the CPU time of a process, 0 if it is gone.
func cpuOf(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var ticks time.Duration
	for _, i := range []int{11, 12} { // utime and stime, fields 14 and 15 of proc(5)
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			return 0
		}
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond
}
