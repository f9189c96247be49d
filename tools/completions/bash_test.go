package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The list of jobs has text of other users, such as the name of a step. The completion offers the ids of jobs and
// executes nothing.
func TestJobsAreIDs(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("rt-job", `#!/bin/sh
cat <<'END'
job,cluster
12,c
12_3,c
60+1,c
13.$(touch executed),c
`+"14.`touch executed`"+`,c
15.*,c
--help,c
job-16.batch-n1-1772366400000,c
END
`)
	script := write("completion", bash(command{name: "rt-job", args: "JOB"}))
	const complete = `cd "$2"; source "$1"; COMP_WORDS=(rt-job "") COMP_CWORD=1; _rt_job; printf '%s\n' "${COMPREPLY[@]}"`
	cmd := exec.Command("bash", "-c", complete, "bash", script, t.TempDir())
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := "12 12_3 60+1 job-16.batch-n1-1772366400000"
	if got := strings.Join(strings.Fields(string(out)), " "); got != want {
		t.Errorf("bash offers %q, want %q", got, want)
	}
}
