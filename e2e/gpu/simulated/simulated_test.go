// Package simulated runs the tests of GPUs with a simulated GPU.
package simulated

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// smiScript is an nvidia-smi for the simulated GPUs.
const smiScript = `#!/bin/sh
case $1 in
--query-gpu=uuid) echo GPU-stub-0 ;;
--query-gpu=*)
	echo 'GPU-stub-0, Stub 0, 81920, 2048, TEMPERATURE, 251.50, 00000000:41:00.0, 570.1, Disabled'
	echo 'GPU-stub-1, Stub 1, 81920, 2048, [N/A], 251.50, 00000000:42:00.0, 570.1, [N/A]' ;;
--query-compute-apps=*) echo "$(cat "$RT_SIMULATED_PID"), 600" ;;
esac
`

const loadScript = `#!/bin/sh
echo $$ >"$RT_SIMULATED_PID"
echo ready $$
exec sleep "$1"
`

// build puts the test program of GPUs into a directory.
func build(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	// The same tags as this test's own: the compiled packages are in the cache already.
	if out, err := exec.Command("go", "test", "-c", "-tags", ownTags()+",gpu", "-o", filepath.Join(dir, "gpu.test"), "..").CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	script, err := os.ReadFile("../run")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "run"), string(script))
	return dir
}

// ownTags returns the build tags of this test.
func ownTags() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "-tags" {
			return s.Value
		}
	}
	return ""
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestWithoutGPU: the message and the exit status of a machine without a GPU.
func TestWithoutGPU(t *testing.T) {
	cmd := exec.Command(filepath.Join(build(t), "run"))
	cmd.Env = append(os.Environ(), "RT_GPU_DEV="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 77 || !strings.Contains(string(out), "\nSKIP all: this machine has no NVIDIA GPU") {
		t.Errorf("%v\n%s", err, out)
	}
}

// simulate puts a library, an nvidia-smi and a load into a directory with the test program.
func simulate(t *testing.T) (dir string) {
	t.Helper()
	dir = build(t)
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml").Output()
	if err != nil {
		t.Fatal(err)
	}
	header := filepath.Join(strings.TrimSpace(string(module)), "pkg/nvml")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-I", header, "-o", filepath.Join(dir, "libnvidia-ml.so.1"), "testdata/nvml.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	write(t, filepath.Join(dir, "load"), loadScript)
	write(t, filepath.Join(dir, "nvidiactl"), "")
	return dir
}

// runs runs tests with a case of the library, and compares the exit status and lines of the report.
func runs(t *testing.T, dir, stub, temperature string, status int, lines []string, args ...string) {
	t.Helper()
	write(t, filepath.Join(dir, "nvidia-smi"), strings.ReplaceAll(smiScript, "TEMPERATURE", temperature))
	cmd := exec.Command(filepath.Join(dir, "run"), args...)
	cmd.Env = append(os.Environ(), "RT_STUB="+stub, "RT_GPU_DEV="+dir, "RT_SIMULATED_PID="+filepath.Join(dir, "pid"), "LD_LIBRARY_PATH="+dir, "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != status {
		t.Errorf("%v, want status %d\n%s", err, status, out)
	}
	_, report, _ := strings.Cut(string(out), "\nreport:\n")
	for _, line := range lines {
		if !strings.Contains(report, line) {
			t.Errorf("the report has no %q:\n%s", line, out)
		}
	}
}

// TestSimulated runs the tests of GPUs with a library and an nvidia-smi that agree, and with one that does not.
func TestSimulated(t *testing.T) {
	dir := simulate(t)
	runs(t, dir, "", "41", 0, []string{
		"PASS readings next to nvidia-smi: 2 GPUs, the first is Stub 0 with NVML 12.570.1",
		"PASS use of a process: 600 MiB, ", "PASS the GPUs of a job: ", "SKIP MIG: no GPU is in MIG mode",
		"SKIP report of a tracked command: ", "SKIP rt-spool doctor: ", "PASS memory of NVML: ",
		"PASS outputs of a job: busy 60 %, memory at least 600 MiB, the driver accounts for processes: false",
	})
	if testing.Short() {
		t.Skip("in make check: other simulated GPUs")
	}
	runs(t, dir, "", "60", 1, []string{"FAIL readings next to nvidia-smi: GPU-stub-0 temperature is 41, nvidia-smi: 60"}, "-test.run", "TestReadings")
	for stub, line := range map[string]string{
		"mig":     "busy not measured with MIG, memory at least 600 MiB, the driver accounts for processes: false",
		"mps":     "busy 60 %, memory at least 600 MiB, the driver accounts for processes: false",
		"zero":    "busy 0 %, memory at least 600 MiB, the driver accounts for processes: false",
		"samples": "busy 60 %, memory at least 600 MiB, the driver accounts for processes: false",
		"peak":    "busy 60 %, memory 70.0 GiB, the driver accounts for processes: true",
	} {
		runs(t, dir, stub, "41", 0, []string{"PASS outputs of a job: " + line}, "-test.run", "TestOutputs")
	}
}

// TestLoadBuilds: the load needs no CUDA to be built, and says that there is no library of the driver.
func TestLoadBuilds(t *testing.T) {
	load := filepath.Join(t.TempDir(), "load")
	if out, err := exec.Command("gcc", "-O2", "-Wall", "-Werror", "-o", load, "../load/load.c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	if out, err := exec.Command(load).CombinedOutput(); err == nil || !strings.Contains(string(out), "usage: load SECONDS MIB") {
		t.Errorf("%v\n%s", err, out)
	}
}
