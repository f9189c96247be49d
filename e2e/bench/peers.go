package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// peer is another program that measures once a second.
type peer struct {
	name    string
	process *os.Process
	stop    func()
}

// startPeer runs a program until stop.
func startPeer(name, program string, args ...string) (*peer, error) {
	cmd := exec.Command(program, args...)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &peer{name: name, process: cmd.Process, stop: func() {
		_ = cmd.Process.Kill() // it has no state
		_ = cmd.Wait()
	}}, nil
}

// buildFloor compiles the C program that reads the same files.
func buildFloor(dir string) (string, error) {
	path := filepath.Join(dir, "floor")
	if out, err := exec.Command("gcc", "-O2", "-o", path, "collect/testdata/floor/floor.c").CombinedOutput(); err != nil {
		return "", fmt.Errorf("gcc floor.c: %w\n%s", err, out)
	}
	return path, nil
}

// startFloor reads the files of the node once a second, and those of a job if there is one.
func startFloor(dir string, j *job) (*peer, error) {
	path, err := buildFloor(dir)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, "-i", "1")
	if j != nil {
		cmd.Args = append(append(cmd.Args, j.cgroups...), j.lists...)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &peer{process: cmd.Process, stop: func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("floor: %w", err)
	}
	p.name = "C: " + line[:len(line)-1]
	return p, nil
}

// others starts the programs that can be installed. The reasons for those that cannot go
// to standard error.
func others(j *job) (peers []*peer) {
	for _, start := range []func(*job) (*peer, error){startPython, startExporter, startPidstat} {
		p, err := start(j)
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench: a peer is missing:", err)
			continue
		}
		peers = append(peers, p)
	}
	return peers
}

// startPython runs the Python tracker, installed from PyPI, for the node.
func startPython(*job) (*peer, error) {
	const version = "0.5.0"
	venv := filepath.Join("build", "peer-resource-tracker-"+version)
	python := filepath.Join(venv, "bin", "python")
	if _, err := os.Stat(filepath.Join(venv, "complete")); err != nil {
		for _, args := range [][]string{
			{"python3", "-m", "venv", venv},
			{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "resource-tracker==" + version},
			{"touch", filepath.Join(venv, "complete")},
		} {
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				return nil, fmt.Errorf("%v: %w\n%s", args, err, out)
			}
		}
	}
	return startPeer("Python resource-tracker "+version+", node", python, "-c",
		"from resource_tracker import SystemTracker; SystemTracker(interval=1, output_file='/dev/null')")
}

// need installs a Debian package if its program is missing.
func need(program, pkg string) error {
	if out, err := exec.Command("contrib/lab/need", program+"="+pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", pkg, err, out)
	}
	return nil
}

// startExporter runs node_exporter, which reads when it is asked.
func startExporter(*job) (*peer, error) {
	const address = "127.0.0.1:19100"
	if err := need("prometheus-node-exporter", "prometheus-node-exporter"); err != nil {
		return nil, err
	}
	p, err := startPeer("node_exporter, one scrape per second", "prometheus-node-exporter", "--web.listen-address="+address)
	if err != nil {
		return nil, err
	}
	done, kill := make(chan struct{}), p.stop
	p.stop = func() {
		close(done)
		kill()
	}
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Second):
			}
			answer, err := http.Get("http://" + address + "/metrics")
			if err != nil {
				continue // it starts
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
	}()
	return p, nil
}

// startPidstat runs pidstat for the tracker of the job.
func startPidstat(j *job) (*peer, error) {
	if err := need("pidstat", "sysstat"); err != nil {
		return nil, err
	}
	return startPeer("pidstat, one process", "pidstat", "-u", "-r", "-d", "-p", fmt.Sprint(j.tracker), "1")
}
