package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// peer is another program that measures once a second.
type peer struct {
	name    string
	process *os.Process
	stop    func()
}

// startFloor starts the C program that reads the files of the node and of a job once a second.
func startFloor(dir string, j *job) (*peer, error) {
	path := filepath.Join(dir, "floor")
	out, err := exec.Command("gcc", "-O2", "-o", path, "collect/testdata/floor/floor.c").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("gcc floor.c: %w\n%s", err, out)
	}
	cmd := exec.Command(path, append([]string{"-i", "1"}, j.counterFiles()...)...)
	lines, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &peer{process: cmd.Process, stop: func() {
		_ = cmd.Process.Kill() // it has no state
		_ = cmd.Wait()
	}}
	line, err := bufio.NewReader(lines).ReadString('\n')
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("floor: %w", err)
	}
	p.name = "a C program with " + strings.TrimSpace(line)
	return p, nil
}

// startPython starts the Python tracker, installed from PyPI, for the node.
func startPython() (*peer, error) {
	const version = "0.5.0"
	venv := filepath.Join("build", "peer-resource-tracker-"+version)
	python := filepath.Join(venv, "bin", "python")
	if _, err := os.Stat(filepath.Join(venv, "complete")); err != nil {
		for _, args := range [][]string{
			{"python3", "-m", "venv", venv},
			{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "resource-tracker==" + version},
			{"touch", filepath.Join(venv, "complete")},
		} {
			out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
			if err != nil {
				return nil, fmt.Errorf("%v: %w: %s", args, err, out)
			}
		}
	}
	cmd := exec.Command(python, "-c", "from resource_tracker import SystemTracker; SystemTracker(interval=1, output_file='/dev/null')")
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("the Python tracker: %w", err)
	}
	return &peer{name: "Python resource-tracker " + version, process: cmd.Process, stop: func() {
		_ = cmd.Process.Kill() // it has no state
		_ = cmd.Wait()
	}}, nil
}
