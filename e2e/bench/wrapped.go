package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// wrapped measures resource-tracker around 1,000 processes while the node has 1,000 more.
func wrapped(bin, dir string) ([]row, error) {
	const processes = "1000"
	work, err := buildWork(dir)
	if err != nil {
		return nil, err
	}
	stray, err := startPeer("stray processes", work, processes)
	if err != nil {
		return nil, err
	}
	defer stray.stop()
	program := filepath.Join(bin, "resource-tracker")
	info, err := os.Stat(program)
	if err != nil {
		return nil, fmt.Errorf("%w; run make build first", err)
	}
	cmd := exec.Command(program, "--interval", "1", "-o", filepath.Join(dir, "samples"), "--", work, processes)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}()
	floor, err := startFloor(dir, nil)
	if err != nil {
		return nil, err
	}
	defer floor.stop()
	time.Sleep(warm)
	uses, err := observe(span, false, cmd.Process.Pid, floor.process.Pid)
	if err != nil {
		return nil, err
	}
	samples, err := os.ReadFile(filepath.Join(dir, "samples"))
	if err != nil {
		return nil, err
	}
	taken := bytes.Count(samples, []byte("\n"))
	if taken < int(span.Seconds()) {
		return nil, fmt.Errorf("resource-tracker took %d samples in more than %s", taken, span)
	}
	u, least := uses[0], uses[1].perSecond()
	return []row{
		{what: "resource-tracker around 1,000 of 2,000 processes, per sample", figure: u.perSecond() / 1000, unit: "ms", budget: 10},
		{what: "  context switches", figure: u.switchesPerSecond(), unit: "/s"},
		{what: "  resident", figure: u.resident, unit: "MiB", budget: 7},
		{what: "  program", figure: float64(info.Size()) / 1e6, unit: "MB", budget: 9},
		{what: floor.name + " of the node, of 2,000 processes", figure: least / 1000, unit: "ms"},
	}, nil
}
