package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/environ"
)

// A tracker reads the run of the largest environment that Linux gives a Prolog. A run cut short would be an error,
// which counts for the breaker.
func TestReadsRunOfLargeEnvironment(t *testing.T) {
	entries := []string{"SLURM_JOB_ID=12", "SLURM_JOB_UID=1001"}
	const largest = 6 << 20 // execve(2)
	value := strings.Repeat("x", 4000)
	for i := range largest / len(value) {
		entries = append(entries, fmt.Sprintf("SLURM_OF_A_USER_%d=%s", i, value))
	}
	run := rt.Run{Identity: rt.Identity{Node: "n1", Start: time.Now()}}
	text := environ.PrologText(environ.NewEnv(entries), &run)
	if len(text) < largest {
		t.Fatalf("the text has only %d bytes", len(text))
	}
	got, err := readRun(bytes.NewReader(text))
	if err != nil || got.JobID != rt.Some[uint64](12) {
		t.Errorf("job %v, %v", got.JobID, err)
	}
}
