package main

import (
	"path/filepath"
	"testing"

	"github.com/resource-tracker/rt/cmd/internal/config"
)

func TestSacctProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	cfg := config.Default().Drain
	if path := sacctProgram(cfg); path != "" && !filepath.IsAbs(path) {
		t.Errorf("found %q", path)
	}
	for sacct, want := range map[string]string{"off": "", "/opt/sacct": "/opt/sacct"} {
		cfg.Sacct = sacct
		if path := sacctProgram(cfg); path != want {
			t.Errorf("drain.sacct %q: %q, want %q", sacct, path, want)
		}
	}
}
