package accounting

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// places are where the commands of Slurm can be when PATH lacks them, as in cron.
var places = []string{"/usr/local/bin", "/opt/slurm/bin", "/usr/local/slurm/bin"}

// FindSacct returns the path of sacct; empty where it is not installed.
func FindSacct() string { return findProgram("sacct") }

func findProgram(program string) string {
	paths := []string{program}
	for _, dir := range places {
		paths = append(paths, filepath.Join(dir, program))
	}
	for _, path := range paths {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	return ""
}

// passed are the variables that sacct and squeue get. The environment of a drain has tokens and keys, which
// no other program must get. SLURM_JWT is Slurm's own, for clusters with auth/jwt.
var passed = [...]string{"PATH", "LANG", "LD_LIBRARY_PATH", "SLURM_CONF", "SLURM_JWT", "TZ"}

// environment returns the passed variables that are set, and the format of times.
func environment(settings ...string) []string {
	env := slices.Clone(settings)
	for _, name := range passed {
		if value, isSet := os.LookupEnv(name); isSet {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// ErrTooLong is wrapped by the error of Run when the output is larger than its limit.
var ErrTooLong = errors.New("its output is too large")

// Run runs sacct or squeue at the path program and returns at most maxBytes of output, with times in
// seconds since the epoch. Of the environment it gets only PATH, LANG, LD_LIBRARY_PATH,
// SLURM_CONF, SLURM_JWT and TZ. The error wraps context.DeadlineExceeded when ctx ends first, and
// ends with what it wrote to its standard error.
func Run(ctx context.Context, program string, args []string, maxBytes int) (string, error) {
	return run(ctx, program, args, maxBytes, "SLURM_TIME_FORMAT=%s")
}

// run is Run with these settings in the environment, where other users cannot read them.
func run(ctx context.Context, program string, args []string, maxBytes int, settings ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = environment(settings...)
	cmd.WaitDelay = time.Second // for a child that keeps its output open
	output, messages := prefix{limit: maxBytes}, prefix{limit: 4 << 10}
	cmd.Stdout, cmd.Stderr = &output, &messages
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case err != nil && len(messages.text) > 0:
		err = fmt.Errorf("%w: %s", err, strings.Join(strings.Fields(string(messages.text)), " "))
	case err == nil && output.cut:
		err = fmt.Errorf("%w: more than %d bytes", ErrTooLong, maxBytes)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	return string(output.text), nil
}

// prefix keeps the beginning of what is written to it.
type prefix struct {
	text  []byte
	limit int
	cut   bool
}

// Write implements io.Writer.
func (p *prefix) Write(b []byte) (int, error) {
	fits := min(len(b), p.limit-len(p.text))
	p.text, p.cut = append(p.text, b[:fits]...), p.cut || fits < len(b)
	return len(b), nil
}
