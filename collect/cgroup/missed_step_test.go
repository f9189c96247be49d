package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The directory of a step was entered, and the cgroup in it was not: the step is in the ledger, because it has no figures.
func TestStepThatEndsBeforeItsCgroupIsEntered(t *testing.T) {
	s := newShareJob(t)
	mkdir(t, filepath.Join(s.dir, "step_3"))
	s.look()
	s.end("step_3")
	s.step("step_4", true, 2000, 100)
	s.look()
	if err := os.WriteFile(filepath.Join(s.dir, "cpu.stat"), []byte("usage_usec 2100\nuser_usec 2000\nsystem_usec 100\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	read(t, s.j)
	var all []string
	for _, e := range s.j.Notes() {
		all = append(all, e.Detail)
	}
	text := strings.Join(all, "; ")
	if strings.Count(text, "the end of step 3 was not read") != 1 || strings.Contains(text, "step 4") {
		t.Errorf("the ledger has %q", text)
	}
}
