package main

import (
	"bytes"
	"os"
	"testing"
)

// When the reader of the output has ended, as head does, no message follows.
func TestClosedOutput(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	var stderr bytes.Buffer
	if status := run(t.Context(), []string{jobProgram, "--spool", t.TempDir(), "--json"}, w, &stderr); status == 0 || stderr.Len() > 0 {
		t.Errorf("status %d: %s", status, &stderr)
	}
}
