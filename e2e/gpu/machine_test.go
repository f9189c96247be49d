//go:build gpu

package gpu

import (
	"bufio"
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	rtgpu "github.com/resource-tracker/rt/collect/gpu"
)

// devices is the directory of the device files. A test with a simulated GPU has another one.
func devices() string { return cmp.Or(os.Getenv("RT_GPU_DEV"), "/dev") }

// program returns the path of a program next to this one.
func program(name string) string {
	self, err := os.Executable()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(self), name)
}

// smi returns the rows that nvidia-smi prints for a query.
func smi(query string) (rows [][]string, err error) {
	out, err := exec.Command("nvidia-smi", query, "--format=csv,noheader,nounits").Output()
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" {
			rows = append(rows, strings.Split(line, ", "))
		}
	}
	if err == nil && len(rows) == 0 && strings.HasPrefix(query, "--query-gpu") {
		err = errors.New("nvidia-smi lists no GPU")
	}
	return rows, err
}

// open returns a source after its drivers have answered. A driver that has been idle needs seconds.
func open(c *check, options ...rtgpu.Option) *rtgpu.Source {
	c.Helper()
	src := rtgpu.New(devices(), "/sys", options...)
	c.Cleanup(func() {
		if err := src.Close(); err != nil {
			c.Errorf("close: %v", err)
		}
	})
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(250 * time.Millisecond) {
		var s rt.Snapshot
		err := src.Read(&s)
		if len(s.GPUs) > 0 && err == nil {
			return src
		}
		if time.Now().After(deadline) {
			c.Fatalf("no reading of a GPU in 15 s: %d GPUs, %v", len(s.GPUs), err)
		}
	}
}

// read returns a reading. On a busy machine a driver may answer after the time that a reading waits.
func read(c *check, src *rtgpu.Source) *rt.Snapshot {
	c.Helper()
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(250 * time.Millisecond) {
		var s rt.Snapshot
		err := src.Read(&s)
		if err == nil {
			return &s
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().After(deadline) {
			c.Fatalf("read: %v", err)
		}
	}
}

// The load of the tests.
const (
	loadMiB  = 512
	loadTime = 20 // seconds
)

// load starts a process that uses GPU 0, and returns its id.
func load(c *check) int {
	c.Helper()
	cmd := exec.Command(program("load"), strconv.Itoa(loadTime), strconv.Itoa(loadMiB))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.Fatalf("start the load: %v", err)
	}
	c.Cleanup(func() {
		cmd.Process.Kill() // it may have ended
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		c.Skipf("the load found no GPU that it may use: %v (see its message)", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "ready ")))
	if err != nil {
		c.Fatalf("the load printed %q", line)
	}
	return pid
}
