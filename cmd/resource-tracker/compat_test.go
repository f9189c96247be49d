package main

import (
	"os"
	"os/exec"
	"testing"
)

// T-COMPAT-01: beside the Python resource-tracker, for 60 s. `make compat` installs
// that and sets RT_COMPAT to the program that runs both, prints the table and ends
// with 0 where each column agrees.
func TestT_COMPAT_01(t *testing.T) {
	program := os.Getenv("RT_COMPAT")
	if program == "" {
		t.Skip("the Python resource-tracker is not here: make compat installs it and runs this test")
	}
	cmd := exec.CommandContext(t.Context(), program)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("the two trackers do not agree: %v", err)
	}
}
