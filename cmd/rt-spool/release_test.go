package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/runtest"
)

// The spool files of the first release can be exported in every format, for the job and for the node.
func TestExportFilesOfTheFirstRelease(t *testing.T) {
	files, err := filepath.Glob("../../spool/testdata/0.2.0/*.db")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), filepath.Base(file))
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r := runtest.Open(t, path)
		for _, e := range exporters {
			for _, scope := range []rt.Scope{rt.ScopeJob, rt.ScopeNode} {
				var out bytes.Buffer
				err := e.write(t.Context(), &out, r, scope)
				isLeftOut := e.needs != "" && err == nil // the run has no such data
				if err != nil || out.Len() == 0 && !isLeftOut {
					t.Errorf("%s as %s, scope %s: %d bytes, %v", file, e.format, scope, out.Len(), err)
				}
				if e.format == "jsonl" && strings.Count(out.String(), "\n") != 3 {
					t.Errorf("%s as jsonl: %s", file, out.String())
				}
			}
		}
	}
}
