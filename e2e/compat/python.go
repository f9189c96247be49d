package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

//go:embed track.py
var trackPy []byte

// theirReading is one row of the Python tracker, and the values behind its sums.
type theirReading struct {
	Begin, End float64 // seconds since the epoch, around the reading
	Row        map[string]any
	Disks      map[string]struct {
		Read  float64 `json:"read_bytes"` // since boot
		Write float64 `json:"write_bytes"`
	}
	Spaces map[string]struct{ Total, Used, Free float64 } // bytes, by mount point
}

// virtualEnvironment returns a Python that has the package, from its package index unless
// an earlier run has installed it.
func virtualEnvironment(ctx context.Context, dir, pkg string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	python := filepath.Join(dir, "bin", "python")
	name, version, _ := strings.Cut(pkg, "==")
	has := exec.CommandContext(ctx, python, "-c", "import sys, importlib.metadata as m; sys.exit(m.version(sys.argv[1]) != sys.argv[2])", name, version)
	if has.Run() == nil {
		return python, nil
	}
	if out, err := exec.CommandContext(ctx, "python3", "-m", "venv", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: no virtual environment in %s: %s", errNoPackage, dir, lastLine(out))
	}
	pip := exec.CommandContext(ctx, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", pkg)
	if out, err := pip.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: pip install %s: %s", errNoPackage, pkg, lastLine(out))
	}
	return python, nil
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

func readNotes(path string) ([]theirReading, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the Python tracker left nothing: %w", err)
	}
	defer f.Close()
	var all []theirReading
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var r theirReading
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("parse %s: %w", path, err)
		}
		all = append(all, r)
	}
	return all, sc.Err()
}

// column returns a value of the row, or false if there is no such column.
func (r *theirReading) column(name string) (float64, bool) {
	v, ok := r.Row[name].(float64)
	return v, ok
}

// away returns the maximum distance of the reading from an instant.
func (r *theirReading) away(wall int64) time.Duration {
	secs := float64(wall) / 1e9
	return time.Duration(max(secs-r.Begin, r.Begin-secs, secs-r.End, r.End-secs) * float64(time.Second))
}
