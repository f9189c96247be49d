package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// statusOf runs the program under a limit of prlimit(1) and returns the status and the whole
// output.
func statusOf(t *testing.T, limit string, user *syscall.SysProcAttr, program string, args ...string) (status int, out string) {
	t.Helper()
	cmd := exec.Command("prlimit", append([]string{limit, program}, args...)...)
	cmd.Env, cmd.SysProcAttr, cmd.Dir = append(os.Environ(), "SLURM_JOB_ID=", printsInits), user, "/"
	text, err := cmd.CombinedOutput()
	failed, isFailed := errors.AsType[*exec.ExitError](err)
	switch {
	case isFailed:
		status = failed.ExitCode()
	case err != nil:
		t.Fatal(err)
	}
	return status, string(text)
}

// The Go runtime ends the program if it cannot reserve memory or start a thread. The command runs nevertheless,
// with its own status.
func TestLowLimits(t *testing.T) {
	t.Parallel()
	program := executableByAll(t)
	var nobody *syscall.SysProcAttr
	if os.Getuid() == 0 { // a user without other processes
		nobody = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65431, Gid: 65431}}
	}
	for _, tt := range []struct {
		limit, warning string
		user           *syscall.SysProcAttr
	}{
		{"--as=300000000", "address space is less than 4 GB", nil},
		{"--as=500000000", "address space is less than 4 GB", nil},
		{"--as=1500000000", "address space is less than 4 GB", nil},
		{"--as=3000000000", "address space is less than 4 GB", nil},
		{"--data=50000000", "data is less than 500 MB", nil},
		{"--data=90000000", "data is less than 500 MB", nil},
		{"--nproc=4", "does not permit 16 threads more", nobody},
		{"--nproc=12", "does not permit 16 threads more", nobody},
	} {
		if strings.HasPrefix(tt.limit, "--nproc") && tt.user == nil {
			continue // this user may have other processes
		}
		if tt.limit == "--data=50000000" && optionOfBuild("-race") == "true" {
			continue // the kernel does not start a program that has more data of its own
		}
		status, out := statusOf(t, tt.limit, tt.user, program, "--quiet", "--", "sh", "-c", "echo started; exit 7")
		warning, rest, _ := strings.Cut(out, "\n")
		if status != 7 || rest != "started\n" || !strings.Contains(warning, "the command runs untracked") || !strings.Contains(warning, tt.warning) {
			t.Errorf("%s: status %d, %q", tt.limit, status, out)
		}
	}
	if status, out := statusOf(t, "--as=500000000", nil, program, "--interval", "1"); status != 1 || strings.Count(out, "\n") != 1 {
		t.Errorf("without a command: status %d, %q", status, out)
	}
}

// Variables for the Go runtime may be meant for the command.
func TestEnvironmentOfTheGoRuntime(t *testing.T) {
	t.Parallel()
	program := executableByAll(t)
	for variable, warning := range map[string]string{
		"GOMAXPROCS=100000":                "GOMAXPROCS is above 1000",
		"GOMAXPROCS=2":                     "",
		"GOMEMLIMIT=4G":                    "GOMEMLIMIT is not a number",
		"GOMEMLIMIT=-1":                    "GOMEMLIMIT is not a number",
		"GOMEMLIMIT=GiB":                   "GOMEMLIMIT is not a number",
		"GOMEMLIMIT=999999999999999999999": "GOMEMLIMIT is not a number",
		"GOMEMLIMIT=99999999TiB":           "GOMEMLIMIT is not a number",
		"GOMEMLIMIT=2000GiB":               "",
		"GOMEMLIMIT=8000000000":            "",
		"GOMEMLIMIT=4194304KiB":            "",
		"GOMEMLIMIT=off":                   "",
		"GOMEMLIMIT=":                      "",
	} {
		status, out := statusOf(t, "--core=0", nil, "/usr/bin/env", variable, program, "--quiet", "--", "sh", "-c", "echo started; exit 7")
		warned := strings.Contains(out, "the command runs untracked: "+warning)
		if status != 7 || !strings.HasSuffix(out, "started\n") || warned != (warning != "") {
			t.Errorf("%s: status %d, %q", variable, status, out)
		}
	}
}

// limits.c finds the command behind each flag, as parseCommandLine does.
func TestFlagsAtALowLimit(t *testing.T) {
	t.Parallel()
	program := executableByAll(t)
	run := func(args ...string) (int, string) {
		status, out := statusOf(t, "--as=900000000", nil, program, args...)
		_, rest, _ := strings.Cut(out, "\n") // behind the warning
		return status, rest
	}
	echo := []string{"sh", "-c", "echo started"}
	for _, o := range options() {
		if o.name == "version" {
			continue
		}
		forms := [][]string{{"--" + o.name}, {"-" + o.name}}
		if o.short != "" {
			forms = append(forms, []string{"-" + o.short})
		}
		for i := range forms {
			if o.takes != "" {
				forms = append(forms, []string{forms[i][0] + "=/bin/false"})
				forms[i] = append(forms[i], "/bin/false")
			}
		}
		for _, form := range forms {
			if status, out := run(append(form, echo...)...); status != 0 || out != "started\n" {
				t.Errorf("%q: status %d, %q", form, status, out)
			}
		}
	}
	for _, tt := range []struct {
		args   []string
		status int
	}{
		{[]string{"--no-such-flag", "sh"}, 2},
		{[]string{"--quiet", "no-such-command"}, 127},
		{[]string{"--", "/etc/passwd"}, 126},
		{[]string{"--version", "sh", "-c", "exit 7"}, 1},
		{[]string{"--", "--", "x"}, 127},
	} {
		if status, out := run(tt.args...); status != tt.status {
			t.Errorf("%q: status %d, want %d: %q", tt.args, status, tt.status, out)
		}
	}
}
