package accounting

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// sacct gets no token and no key of a drain, except Slurm's own SLURM_JWT.
func TestRunEnvironment(t *testing.T) {
	program := filepath.Join(t.TempDir(), "sacct")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nunset PWD\nexec env\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"SENTINEL_API_TOKEN": "secret", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "secret",
		"HTTPS_PROXY": "http://user:secret@proxy", "SACCT_FEDERATION": "1", "SLURM_JOB_ID": "12",
		"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "SLURM_CONF": "/etc/slurm/x.conf", "TZ": "Asia/Tokyo",
		"SLURM_JWT": "jwt", "LD_LIBRARY_PATH": "/opt/slurm/lib",
	} {
		t.Setenv(name, value)
	}
	output, err := Run(t.Context(), program, nil, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(output), "\n")
	slices.Sort(got)
	want := []string{
		"LANG=C.UTF-8", "LD_LIBRARY_PATH=/opt/slurm/lib", "PATH=/usr/bin:/bin", "SLURM_CONF=/etc/slurm/x.conf", "SLURM_JWT=jwt",
		"SLURM_TIME_FORMAT=%s", "TZ=Asia/Tokyo",
	}
	if !slices.Equal(got, want) {
		t.Errorf("sacct's environment is %q, want %q", got, want)
	}
}

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
				limit = 50 * time.Millisecond
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
