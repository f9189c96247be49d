//go:build qemu

package arm64

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/samples"
)

// emulated returns the command that runs a program of linux/arm64: RT_QEMU is the
// emulator with its flags, RT_ARM64_BIN the programs' directory.
func emulated(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	path := filepath.Join(os.Getenv("RT_ARM64_BIN"), program)
	f, err := elf.Open(path)
	if err != nil {
		t.Fatalf("RT_ARM64_BIN must name the programs' directory; contrib/test/arm64 sets it: %v", err)
	}
	machine := f.Machine
	_ = f.Close()
	if machine != elf.EM_AARCH64 {
		t.Fatalf("%s is for %v", path, machine)
	}
	qemu := strings.Fields(os.Getenv("RT_QEMU"))
	if len(qemu) == 0 {
		t.Fatal("RT_QEMU must name the emulator; contrib/test/arm64 sets it")
	}
	cmd := exec.Command(qemu[0], append(append(qemu[1:], path), args...)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// lines runs the tracker until it has printed n lines and stops it; the tracker must exit
// with status 0.
func lines(t *testing.T, n int, args ...string) []string {
	t.Helper()
	cmd := emulated(t, "resource-tracker", args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var got []string
	sc := bufio.NewScanner(out)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if got = append(got, sc.Text()); len(got) == n {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || len(got) < n {
		t.Fatalf("resource-tracker %v: %d lines, %v", args, len(got), err)
	}
	return got[:n]
}

// machine has the values of /proc that are constant and that the emulator does not change.
func machine(t *testing.T) (cpus int, memMiB uint64) {
	t.Helper()
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(stat)) {
		if strings.HasPrefix(line, "cpu") && !strings.HasPrefix(line, "cpu ") {
			cpus++
		}
	}
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	var kib uint64
	if _, err := fmt.Sscanf(string(info), "MemTotal: %d kB", &kib); err != nil {
		t.Fatal(err)
	}
	return cpus, kib >> 10
}

func TestSamplesAsJSON(t *testing.T) {
	cpus, memory := machine(t)
	var before rt.Sample
	for i, line := range lines(t, 2, "--interval", "1", "--format", "json") {
		s, _, err := samples.DecodeJSON([]byte(line))
		if err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		busy, ok := s.CPU.UtilizationPct.Get()
		if !ok || busy < 0 || busy > float64(cpus) || len(s.CPU.PerCorePct) != cpus {
			t.Errorf("the machine has %d CPUs: %+v", cpus, s.CPU)
		}
		if n := s.CPU.ProcessCount.Or(0); n < 2 || n > 1<<22 {
			t.Errorf("%d processes", n)
		}
		if m := s.Memory; m.TotalMiB.Or(0) != memory || m.FreeMiB.Or(memory) >= memory || m.UsedMiB.Or(0) == 0 {
			t.Errorf("the machine has %d MiB of memory: %+v", memory, m)
		}
		if i > 0 && s.TimestampSecs <= before.TimestampSecs {
			t.Errorf("the second sample has the time %d, the first %d", s.TimestampSecs, before.TimestampSecs)
		}
		before = s
	}
}

func TestSamplesAsCSV(t *testing.T) {
	got := lines(t, 3, "--interval", "1", "--format", "csv")
	cpus, memory := machine(t)
	_, rows, err := samples.ReadCSV(strings.NewReader(strings.Join(got, "\n") + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for row, err := range rows {
		if err != nil {
			t.Fatal(err)
		}
		n++
		s := row.Scalars
		if busy, ok := s.CPUUsage.Get(); !ok || busy < 0 || busy > float64(cpus) {
			t.Errorf("cpu_usage of %d CPUs: %v", cpus, s.CPUUsage)
		}
		if used, ok := s.MemUsed.Get(); !ok || used == 0 || used >= memory {
			t.Errorf("memory_used of %d MiB: %v", memory, s.MemUsed)
		}
	}
	if n != 2 {
		t.Errorf("%d rows", n)
	}
}

// The programs of this machine read the spool that the emulated tracker wrote.
func TestSpoolAcrossArchitectures(t *testing.T) {
	dir := t.TempDir()
	var exit *exec.ExitError
	err := emulated(t, "resource-tracker", "--interval", "1", "--spool", dir, "--", "sh", "-c", "sleep 1; exit 7").Run()
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Fatalf("the command's exit status of 7 became: %v", err)
	}
	for _, args := range [][]string{{"verify"}, {"ls"}} {
		args = append([]string{"--spool", dir}, args...)
		out, err := exec.Command(filepath.Join(os.Getenv("RT_BIN"), "rt-spool"), args...).CombinedOutput()
		if err != nil {
			t.Errorf("rt-spool %v: %v\n%s", args, err, out)
		}
		arm, err := emulated(t, "rt-spool", args...).Output()
		if err != nil || len(arm) == 0 || args[2] == "ls" && string(arm) != string(out) {
			t.Errorf("rt-spool %v: %v\nhere:     %s\nemulated: %s", args, err, out, arm)
		}
	}
}
