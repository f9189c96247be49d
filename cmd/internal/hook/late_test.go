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

// Work that hangs costs the job its configured time and one line. The timer ends a process
// that hangs later.
func TestHangingWork(t *testing.T) {
	dir := t.TempDir()
	conf, log := filepath.Join(dir, "rt.toml"), filepath.Join(dir, "rt.log")
	if err := os.WriteFile(conf, []byte("[spool]\nuser = \"root\"\n[log]\ntarget = \""+log+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		exits := make(chan time.Duration, 1)
		begin := time.Now()
		opts := Invocation{
			Program: "rt-prolog", Args: []string{"--config", conf}, Environ: []string{"SLURM_JOB_ID=12", "SLURMD_NODENAME=n1"},
			Slack: slack, LogTime: logTime, Exit: func(status int) { exits <- time.Since(begin) + time.Duration(status)*time.Hour },
		}
		run(opts, func(*slurmhook.Hook, environ.Env, time.Time) error {
			time.Sleep(time.Hour)
			return errors.New("too late")
		},
			func(config.Hooks) time.Duration { return time.Minute })
		first := time.Since(begin)
		// The second is the timer's, if the log hangs too.
		if second := <-exits; first != 64*time.Second || second != first+3*logTime {
			t.Errorf("the process ends with status 0 after %s and %s", first, second)
		}
		time.Sleep(time.Hour) // until the work ends
	})
	text, err := os.ReadFile(log)
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.HasSuffix(string(text), "error: job 12@n1: gave up after 1m4s\n") {
		t.Errorf("log %q, %v", text, err)
	}
}
