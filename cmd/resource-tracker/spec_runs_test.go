package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/samples"
	"github.com/resource-tracker/rt/format/resourcetracker"
	"github.com/resource-tracker/rt/spool"
)

// realRuns are what the program said of the machine that tests, while this process
// kept it busy. All tests of the specification that speak of samples share them.
type realRuns struct {
	json    []string    // lines of a run without any flag
	samples []rt.Sample // the same, decoded
	tracked []rt.Sample // of a run with --pid of this process
	csv     string      // of a run with --format csv
	ofCSV   []rt.Sample // the samples of its readings, as its spool has them
}

// samplesOfARun is how many samples a shared run waits for. There is one more, at the end.
const samplesOfARun = 2

var theRuns struct {
	once sync.Once
	runs realRuns
	err  error
}

// runsOf takes the shared runs, or says what they were.
func runsOf(t *testing.T) *realRuns {
	t.Helper()
	theRuns.once.Do(func() { theRuns.err = theRuns.runs.take(t.TempDir()) })
	if theRuns.err != nil {
		t.Fatal(theRuns.err)
	}
	return &theRuns.runs
}

// take runs the program three times at once.
func (r *realRuns) take(dir string) error {
	stop := make(chan struct{})
	var load, runs sync.WaitGroup
	load.Go(func() { work(filepath.Join(dir, "load"), stop) })
	defer load.Wait()
	defer close(stop)

	var tracked []string
	var errs [3]error
	runs.Go(func() { r.json, errs[0] = sampled(dir, samplesOfARun) })
	runs.Go(func() { tracked, errs[1] = sampled(dir, samplesOfARun, "--pid", strconv.Itoa(os.Getpid())) })
	runs.Go(func() {
		var lines []string
		lines, errs[2] = sampled(dir, 1+samplesOfARun, "--format", "csv", "-o", "/dev/stdout", "--spool", "runs")
		r.csv = strings.Join(lines, "")
	})
	runs.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	var err error
	if r.samples, err = decoded(r.json); err != nil {
		return err
	}
	if r.tracked, err = decoded(tracked); err != nil {
		return err
	}
	r.ofCSV, err = samplesOfSpool(filepath.Join(dir, "runs"))
	return err
}

// work keeps a processor and a disk busy.
func work(path string, stop <-chan struct{}) {
	block := make([]byte, 1<<20)
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		for k := range block {
			block[k] = byte(k * i)
		}
		_ = os.WriteFile(path, block, 0o600) // a load that fails is none
	}
}

// sampled runs the program until it has printed so many lines, and signals it to stop. It returns
// all lines, each with a newline.
func sampled(dir string, lines int, args ...string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := bareCommand(ctx, dir, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var got []string
	for r := bufio.NewReader(out); ; {
		line, err := r.ReadString('\n')
		if line != "" {
			got = append(got, line)
		}
		if len(got) == lines {
			_ = cmd.Process.Signal(syscall.SIGTERM) // it fails when it has ended, which Wait returns
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return got, err
		}
	}
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 || len(got) < lines {
		return got, fmt.Errorf("resource-tracker %q: %w, %d lines, standard error %q", args, err, len(got), stderr.String())
	}
	return got, nil
}

// bareCommand is the program without what the machine that tests has set for it.
func bareCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "resource-tracker", args...)
	cmd.Dir = dir
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		ours := false
		for _, prefix := range []string{"SLURM_", "RESOURCE_TRACKER_", "TRACKER_", "SENTINEL_"} {
			ours = ours || strings.HasPrefix(name, prefix)
		}
		if !ours {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "GORACE="+noRaceWait)
	return cmd
}

// ran runs the program to its end.
func ran(t *testing.T, dir string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := bareCommand(t.Context(), dir, args...)
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), messages.String(), cmd.ProcessState.ExitCode()
}

func decoded(lines []string) ([]rt.Sample, error) {
	var out []rt.Sample
	for _, line := range lines {
		s, _, err := samples.DecodeJSON([]byte(line))
		if err != nil {
			return nil, fmt.Errorf("%w in %s", err, line)
		}
		out = append(out, s)
	}
	return out, nil
}

// snapshotsOf are the readings of the one run in a spool directory.
func snapshotsOf(dir string) (run rt.Run, out []rt.Snapshot, err error) {
	entries, err := spool.List(dir)
	if err != nil || len(entries) != 1 {
		return run, nil, fmt.Errorf("%d runs in the spool: %w", len(entries), err)
	}
	r, err := spool.Open(entries[0].Path)
	if err != nil {
		return run, nil, err
	}
	defer r.Close()
	for s, err := range r.Snapshots(context.Background(), 1, math.MaxInt64) {
		if err != nil {
			return run, nil, err
		}
		var kept rt.Snapshot
		kept.CopyFrom(s)
		out = append(out, kept)
	}
	return r.Run(), out, nil
}

// samplesOfSpool are the samples between the readings of the one run in a spool
// directory, as JSON would show them.
func samplesOfSpool(dir string) ([]rt.Sample, error) {
	_, readings, err := snapshotsOf(dir)
	if err != nil {
		return nil, err
	}
	var lines []string
	for i := 1; i < len(readings); i++ {
		s := rt.Derive(&readings[i-1], &readings[i], rt.ScopeNode)
		lines = append(lines, string(resourcetracker.AppendJSON(nil, &s, rt.Version)))
	}
	return decoded(lines)
}

// object is a line of JSON as any library reads it.
func object(t *testing.T, line string) map[string]any {
	t.Helper()
	var doc map[string]any
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Fatalf("more than one value in %q", line)
	}
	return doc
}
