// Compat runs the Python resource-tracker and ours at the same time, under a load of CPU, memory, disk and loopback
// traffic. It prints the differences column by column (T-COMPAT-01). The exit status is 1 if a column differs by more
// than 5 % of the Python value. RT_BIN names the directory of our programs.
//
// Where the two define a published figure differently, the row is marked, and a second row
// compares one formula over the readings of both trackers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	seconds, interval int
	bin, venv, pkg    string
}

// errNoPackage: the Python package cannot be installed here.
var errNoPackage = errors.New("the Python resource-tracker cannot be installed")

func main() {
	o := options{bin: os.Getenv("RT_BIN")}
	flag.IntVar(&o.seconds, "seconds", 60, "how long both run, in `SECONDS`")
	flag.IntVar(&o.interval, "interval", 5, "`SECONDS` between two readings")
	flag.StringVar(&o.venv, "venv", "build/compat/venv", "`DIR` of the virtual environment, made where there is none")
	flag.StringVar(&o.pkg, "package", "resource-tracker==0.5.0", "the Python `PACKAGE` to compare with")
	flag.Parse()
	if o.bin == "" {
		o.bin = "build/bin"
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch out, err := run(ctx, o); {
	case errors.Is(err, errNoPackage):
		fmt.Println("compat: skipped:", err)
	case err != nil:
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(1)
	case out > 0:
		fmt.Fprintf(os.Stderr, "compat: %d columns are out\n", out)
		os.Exit(1)
	}
}

// run returns the number of columns that differ too much.
func run(ctx context.Context, o options) (int, error) {
	if o.interval < 1 || o.seconds < 2*o.interval {
		return 0, fmt.Errorf("%d s at an interval of %d s are too few readings to compare", o.seconds, o.interval)
	}
	python, err := virtualEnvironment(ctx, o.venv, o.pkg)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "rt-compat-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)

	loaded, unload := context.WithCancel(ctx)
	load := startLoad(loaded, dir)
	err = both(ctx, o, python, dir)
	unload()
	if err := errors.Join(err, load()); err != nil {
		return 0, err
	}
	theirs, err := readNotes(filepath.Join(dir, "notes"))
	if err != nil {
		return 0, err
	}
	ours, err := readOurs(ctx, filepath.Join(dir, "ours.csv"), filepath.Join(dir, "spool"))
	if err != nil {
		return 0, err
	}
	pairs := match(theirs, ours, time.Duration(o.interval)*time.Second)
	if want := o.seconds/o.interval - 1; len(pairs) < want {
		return 0, fmt.Errorf("only %d of %d intervals can be compared: %d readings in Python, %d of ours", len(pairs), want, len(theirs), len(ours))
	}
	return table(os.Stdout, pairs, o), nil
}

// both runs the two trackers at the same instants, and stops them.
func both(ctx context.Context, o options, python, dir string) error {
	start := time.Now().Add(3 * time.Second).Truncate(time.Second) // Python needs time to start
	script := filepath.Join(dir, "track.py")
	if err := os.WriteFile(script, trackPy, 0o644); err != nil {
		return err
	}
	interval := fmt.Sprint(o.interval)
	theirs := exec.CommandContext(ctx, python, script, fmt.Sprint(start.Unix()), interval, filepath.Join(dir, "theirs.csv"), filepath.Join(dir, "notes"))
	ours := exec.CommandContext(ctx, filepath.Join(o.bin, "resource-tracker"),
		"--interval", interval, "--format", "csv", "--output", filepath.Join(dir, "ours.csv"), "--spool", filepath.Join(dir, "spool"))
	for _, c := range []*exec.Cmd{theirs, ours} {
		c.Stderr = os.Stderr
		if c == ours {
			time.Sleep(time.Until(start))
		}
		if err := c.Start(); err != nil {
			return err
		}
		defer func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		}()
	}
	select {
	case <-time.After(time.Until(start.Add(time.Duration(o.seconds)*time.Second + 500*time.Millisecond))):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_ = ours.Process.Signal(syscall.SIGTERM)
	if err := ours.Wait(); err != nil {
		return fmt.Errorf("resource-tracker: %w", err)
	}
	return nil
}
