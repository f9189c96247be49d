//go:build gpu

package gpu

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// exitNoGPU is the exit status on a machine without a GPU, as of a skipped test in Automake.
const exitNoGPU = 77

// results are the lines of the report.
var results []string

func TestMain(m *testing.M) {
	if reason := missing(); reason != "" {
		fmt.Printf("\nSKIP all: %s\n", reason)
		os.Exit(exitNoGPU)
	}
	status := m.Run()
	fmt.Println("\nreport:")
	for _, line := range results {
		fmt.Println(line)
	}
	os.Exit(status)
}

// missing returns why this machine cannot run the tests.
func missing() string {
	if _, err := os.Stat(filepath.Join(devices(), "nvidiactl")); err != nil {
		return fmt.Sprintf("this machine has no NVIDIA GPU, or its driver is not loaded: %v", err)
	}
	if out, err := smi("--query-gpu=uuid"); err != nil {
		return fmt.Sprintf("nvidia-smi, with which the readings are compared, fails: %v %q", err, out)
	}
	return ""
}

// check is a test with a line in the report.
type check struct {
	*testing.T
	name, reason string
}

// begin adds the line of a test to the report when the test ends.
func begin(t *testing.T, name string) *check {
	c := &check{T: t, name: name}
	t.Cleanup(func() {
		word := "PASS"
		switch {
		case t.Failed():
			word = "FAIL"
		case t.Skipped():
			word = "SKIP"
		}
		results = append(results, fmt.Sprintf("%s %s: %s", word, c.name, c.reason))
	})
	return c
}

// passed sets what the report says of a test that has not failed.
func (c *check) passed(format string, args ...any) {
	if !c.Failed() {
		c.reason = fmt.Sprintf(format, args...)
	}
}

func (c *check) Errorf(format string, args ...any) {
	c.Helper()
	c.reason = fmt.Sprintf(format, args...) // the last one; the output has all
	c.T.Errorf(format, args...)
}

func (c *check) Fatalf(format string, args ...any) {
	c.Helper()
	c.reason = fmt.Sprintf(format, args...)
	c.T.Fatalf(format, args...)
}

func (c *check) Skipf(format string, args ...any) {
	c.Helper()
	c.reason = fmt.Sprintf(format, args...)
	c.T.Skipf(format, args...)
}
