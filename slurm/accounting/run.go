package accounting

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// sacctPlaces are where FindSacct looks for sacct when PATH, that of cron for example,
// lacks it.
var sacctPlaces = []string{"/usr/local/bin/sacct", "/opt/slurm/bin/sacct", "/usr/local/slurm/bin/sacct"}

// FindSacct returns the path of sacct; empty where it is not installed.
func FindSacct() string {
	for _, path := range append([]string{"sacct"}, sacctPlaces...) {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	return ""
}

// ErrTooLong is wrapped by the error of Run when the output is larger than its limit.
var ErrTooLong = errors.New("its output is too large")

// Run runs sacct, found at the path program, and returns its output, at most maxBytes.
// Times in the output are seconds since the epoch. The error names the program, wraps
// context.DeadlineExceeded when ctx ends first, and ends with what sacct wrote to its
// standard error.
func Run(ctx context.Context, program string, args []string, maxBytes int) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "SLURM_TIME_FORMAT=%s")
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
