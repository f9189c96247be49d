package main

import (
	"os"
	"os/exec"
	"testing"
)

// T-COMPAT-01: next to the Python resource-tracker, for 60 s. RT_COMPAT is the path of e2e/compat
// as built, which `contrib/test/compat` runs. It installs that tracker, runs both, prints the table
// and ends with 0 where each column agrees.
func TestT_COMPAT_01(t *testing.T) {
	program := os.Getenv("RT_COMPAT")
	if program == "" {
		t.Skip("it needs the Python resource-tracker from a package index, and a minute: contrib/test/compat does it, or RT_COMPAT=PATH of e2e/compat as built")
	}
	out, err := exec.CommandContext(t.Context(), program).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("the two trackers do not agree: %v", err)
	}
}
