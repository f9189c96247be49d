package hook

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt/internal/config"
	"github.com/resource-tracker/rt/slurm/environ"
	slurmhook "github.com/resource-tracker/rt/slurm/hook"
)

func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if n, err := within(time.Second, func() (int, error) { return 3, os.ErrClosed }); n != 3 || err != os.ErrClosed {
			t.Errorf("in time: %d, %v", n, err)
		}
		release := make(chan struct{})
		_, err := within(time.Second, func() (int, error) { <-release; panic("too late to matter") })
		if err != errLate {
			t.Errorf("late: %v", err)
		}
		close(release)
		_, err = within(time.Second, func() (int, error) { panic("oops") })
		if p, ok := errors.AsType[defect](err); !ok || p.value != "oops" {
			t.Errorf("panic: %v", err)
		}
	})
}

// Work that hangs costs the job its configured time and one line. The timer ends a process
// that hangs later.
func TestHangingWork(t *testing.T) {
	dir := t.TempDir()
	conf, log := filepath.Join(dir, "rt.toml"), filepath.Join(dir, "rt.log")
	if err := os.WriteFile(conf, []byte("[spool]\nuser = \"root\"\n[log]\ntarget = \""+log+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		exits := 0
		opts := Options{
			Program: "rt-prolog", Args: []string{"--config", conf}, Environ: []string{"SLURM_JOB_ID=12", "SLURMD_NODENAME=n1"},
			LogTime: logTime, Exit: func(status int) { exits += 1 + 10*status },
		}
		release := make(chan struct{})
		run(opts, func(*slurmhook.Hook, environ.Env, time.Time) error { <-release; return errors.New("too late") },
			func(config.Hooks) time.Duration { return time.Minute })
		close(release)
		time.Sleep(time.Hour)
		synctest.Wait()
		if exits != 1 {
			t.Errorf("the timer ended the process %d times, want once with status 0", exits)
		}
	})
	text, err := os.ReadFile(log)
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.HasSuffix(string(text), "error: job 12@n1: gave up after 1m4s\n") {
		t.Errorf("log %q, %v", text, err)
	}
}
