package hook

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/slurm/environ"
	slurmhook "github.com/resource-tracker/rt/slurm/launch"
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

func TestLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unexpected := func() { t.Error("it is late") }
		if err := limited(time.Second, func() error { time.Sleep(time.Second - 1); return os.ErrClosed }, unexpected); err != os.ErrClosed {
			t.Errorf("in time: %v", err)
		}
		err := limited(time.Second, func() error { panic("oops") }, unexpected)
		if p, ok := errors.AsType[defect](err); !ok || p.value != "oops" {
			t.Errorf("panic: %v", err)
		}
		begin, isLate := time.Now(), false
		err = limited(time.Second, func() error { time.Sleep(time.Minute); panic("too late to matter") }, func() {
			if isLate = time.Since(begin) == time.Second; !isLate {
				t.Errorf("late after %s", time.Since(begin))
			}
		})
		if err != errLate || !isLate {
			t.Errorf("late: %v, %v", err, isLate)
		}
		time.Sleep(time.Hour)
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
		exits := make(chan time.Duration, 2)
		begin := time.Now()
		opts := Options{
			Program: "rt-prolog", Args: []string{"--config", conf}, Environ: []string{"SLURM_JOB_ID=12", "SLURMD_NODENAME=n1"},
			Slack: slack, LogTime: logTime, Exit: func(status int) { exits <- time.Since(begin) + time.Duration(status)*time.Hour },
		}
		run(opts, func(*slurmhook.Hook, environ.Env, time.Time) error {
			time.Sleep(time.Hour)
			return errors.New("too late")
		},
			func(config.Hooks) time.Duration { return time.Minute })
		// The second is that of the timer, if the first one and the log hang too.
		if first, second := <-exits, <-exits; first != 64*time.Second || second != first+3*logTime {
			t.Errorf("the process ends with status 0 after %s and %s", first, second)
		}
	})
	text, err := os.ReadFile(log)
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.HasSuffix(string(text), "error: job 12@n1: gave up after 1m4s\n") {
		t.Errorf("log %q, %v", text, err)
	}
}
