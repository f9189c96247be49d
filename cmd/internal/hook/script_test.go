package hook

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/e2e/await"
	"github.com/resource-tracker/rt/slurm/environ"
	slurmhook "github.com/resource-tracker/rt/slurm/launch"
)

// quickSlack is the slack of a Prolog that waits until it is over.
const quickSlack = 400 * time.Millisecond

func TestMain(m *testing.M) {
	// The real hooks, with their own log and without syslog.
	inTest := func(program string) Invocation {
		opts := System(program)
		opts.DevLog = filepath.Join(os.Getenv("WORK"), "no-syslog")
		opts.Fallback = filepath.Join(os.Getenv("WORK"), "fallback.log")
		opts.LogTime = 10 * time.Second // no line is lost on a busy machine
		return opts
	}
	testscript.Main(m, map[string]func(){
		"rt-prolog": func() { Prolog(inTest("rt-prolog")) },
		"rt-prolog-quick": func() {
			opts := inTest("rt-prolog")
			opts.Slack = quickSlack
			Prolog(opts)
		},
		"rt-epilog": func() { Epilog(inTest("rt-epilog")) },
	})
}

// Every script runs the hooks for job 12 on n1 with $WORK/rt.toml; "exec" asserts that they
// exit 0.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:       "testdata",
		Cmds:      map[string]func(*testscript.TestScript, bool, []string){"kill-9": killProcess},
		Condition: func(name string) (bool, error) { return name == "root" && os.Geteuid() == 0, nil },
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", "atexit_sleep_ms=0") // of the many short processes, under -race
			e.Setenv("SLURM_JOB_ID", "12")
			e.Setenv("SLURMD_NODENAME", "n1")
			e.Setenv("SLURM_JOB_EXIT_CODE2", "0:0")
			text := strings.ReplaceAll(`
[spool]
dir = "$WORK/spool"
user = "root"
[tracker]
path = "$WORK/rt-tracker"
state_dir = "$WORK/state"
[hooks]
disable_file = "$WORK/disabled"
ready_timeout = "10s"
stop_timeout = "10s"
breaker_failures = 100
[log]
target = "$WORK/rt.log"
`, "$WORK", e.WorkDir)
			quick := strings.Replace(text, `ready_timeout = "10s"`, `ready_timeout = "50ms"`, 1)
			two := strings.Replace(text, "breaker_failures = 100", "breaker_failures = 2", 1)
			var failed error
			for name, text := range map[string]string{"rt.toml": text, "quick.toml": quick, "two.toml": two} {
				failed = errors.Join(failed, os.WriteFile(filepath.Join(e.WorkDir, name), []byte(text), 0o644))
			}
			return failed
		},
	})
}

// killProcess kills the process whose number is in a file, and waits for its end.
func killProcess(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[0])))
	ts.Check(err)
	ts.Check(unix.Kill(pid, unix.SIGKILL))
	ts.Check(await.Exited(pid))
}

// A panic only becomes a line in the log.
func TestPanic(t *testing.T) {
	dir := t.TempDir()
	conf, log := filepath.Join(dir, "rt.toml"), filepath.Join(dir, "rt.log")
	if err := os.WriteFile(conf, []byte("[spool]\nuser = \"root\"\n[log]\ntarget = \""+log+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := Invocation{Program: "rt-prolog", Args: []string{"--config", conf}, Environ: []string{"SLURM_JOB_ID=12", "SLURMD_NODENAME=n1"}, Slack: slack, LogTime: time.Minute, Exit: func(int) {}}
	run(opts, func(*slurmhook.Hook, environ.Env, time.Time) error { panic("oops") }, func(config.Hooks) time.Duration { return time.Hour })
	text, err := os.ReadFile(log)
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), "error: job 12@n1: internal error, please report it: oops") {
		t.Errorf("log %q, %v", text, err)
	}
}
