package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const token = "the-token-of-this-measurement"

// receiver is `rt-site serve` with its defaults, but no limit of the rate of a token: all nodes have the same.
type receiver struct {
	url string
	cmd *exec.Cmd
}

func startReceiver(program, dir string, st stores) (*receiver, error) {
	tokens, conf := filepath.Join(dir, "tokens"), filepath.Join(dir, "rt.toml")
	if err := errors.Join(os.WriteFile(tokens, []byte(token+"\n"), 0o600), os.WriteFile(conf, []byte("[serve]\ntoken_rate = \"0B\"\n"+st.conf), 0o600)); err != nil {
		return nil, err
	}
	r := &receiver{cmd: exec.Command(program, "--config", conf, "serve", "--listen", "127.0.0.1:0", "--dir", filepath.Join(dir, "data"), "--token-file", tokens)}
	r.cmd.Stderr, r.cmd.Env = os.Stderr, append(os.Environ(), st.env...)
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w; run make build first", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the receiver said nothing: %w", err)
	}
	r.url = strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	return r, nil
}

func (r *receiver) stop() error {
	return errors.Join(r.cmd.Process.Signal(syscall.SIGTERM), r.cmd.Wait())
}

func (r *receiver) kill() { _, _ = r.cmd.Process.Kill(), r.cmd.Wait() } // the caller already has an error

// cpu returns the CPU time that the receiver has used.
func (r *receiver) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var ticks time.Duration
	for _, field := range f[11:13] { // utime and stime of proc(5)
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond, nil
}

// resident returns the maximum resident size of the receiver in MiB, or 0 if it is not known.
func (r *receiver) resident() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib float64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0
	}
	return kib / 1024
}
