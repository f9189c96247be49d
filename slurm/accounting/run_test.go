package accounting

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	for _, tt := range []struct{ name, script, output, err string }{
		{"seconds", `printf '%s %s' "$SLURM_TIME_FORMAT" "$1"`, "%s -n", ""},
		{"fails", "echo; echo ' no  slurmdbd' >&2; exit 3", "", "exit status 3: no slurmdbd"},
		{"too long", "head -c 101 /dev/zero", "", "more than 100 bytes"},
		{"hangs", "exec sleep 100", "", "deadline exceeded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "sacct")
			if err := os.WriteFile(program, []byte("#!/bin/sh\n"+tt.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			limit := time.Minute
			if tt.name == "hangs" {
				limit = time.Second / 2
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			output, err := Run(ctx, program, []string{"-n"}, 100)
			if output != tt.output || (err == nil) != (tt.err == "") {
				t.Fatalf("%q, %v", output, err)
			}
			if err != nil && (!strings.Contains(err.Error(), tt.err) || !strings.HasPrefix(err.Error(), program+": ")) {
				t.Errorf("%v, want %q", err, tt.err)
			}
			if got, want := errors.Is(err, ErrTooLong), tt.name == "too long"; got != want {
				t.Errorf("ErrTooLong: %t, want %t", got, want)
			}
		})
	}
}
