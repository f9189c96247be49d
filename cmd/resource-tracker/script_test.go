package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/await"
	"github.com/resource-tracker/rt/e2e/samples"
	"github.com/resource-tracker/rt/spool"
)

// The test binary is also the programs that the tests run.
func TestMain(m *testing.M) {
	// Most of these tests wait for the seconds of a tracker: more of them run at once than there are processors.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	testscript.Main(cleaning{m}, map[string]func(){
		"resource-tracker": main,
		"status":           statusMain,
		"count-signals":    countSignalsMain,
		"ask":              askMain,
		"await-lines":      awaitLinesMain,
	})
}

// noRaceWait keeps programs built with -race from waiting a second at their end.
const noRaceWait = "atexit_sleep_ms=0"

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"SLURM_JOB_ID", "XDG_STATE_HOME", "RESOURCE_TRACKER_INTERVAL"} {
				e.Setenv(name, "")
			}
			e.Setenv("GORACE", noRaceWait)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await": cmdAwait, "jsonlines": cmdJSONLines, "csv": cmdCSV, "run": cmdRun,
		},
	})
}

// statusMain runs its arguments and prints their status in the end.
func statusMain() {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("status", cmd.ProcessState.ExitCode())
}

// askMain reads a line, and ends with status 7. It says when it is continued after a stop.
func askMain() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	go func() {
		for range continued {
			fmt.Println("continued")
		}
	}()
	fmt.Println("ask", os.Getpid())
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Println("heard", strings.TrimSpace(line))
	os.Exit(7)
}

// awaitLinesMain waits until a file has so many lines: await-lines FILE N.
func awaitLinesMain() {
	n, err := strconv.Atoi(os.Args[2])
	if err == nil {
		err = await.Changed(filepath.Dir(os.Args[1]), func() bool { return hasLines(os.Args[1], n) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// hasLines reports whether a file has at least n lines.
func hasLines(path string, n int) bool {
	text, err := os.ReadFile(path)
	return err == nil && bytes.Count(text, []byte("\n")) >= n
}

// countSignalsMain says which signals it gets, and ends with SIGUSR1: with the
// status that it was given, or else 0.
func countSignalsMain() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT)
	fmt.Println("ready", os.Getpid())
	for s := range signals {
		fmt.Println("got", s)
		if s == syscall.SIGUSR1 {
			if len(os.Args) > 1 {
				status, _ := strconv.Atoi(os.Args[1])
				os.Exit(status)
			}
			return
		}
	}
}

// cmdAwait waits until a file has a line.
func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	path := ts.MkAbs(args[0])
	ts.Check(await.Changed(filepath.Dir(path), func() bool { return hasLines(path, 1) }))
}

// cmdJSONLines checks that a file has at least so many samples and nothing else (T-OUT-01 to 04).
func cmdJSONLines(ts *testscript.TestScript, neg bool, args []string) {
	least, err := strconv.Atoi(args[1])
	ts.Check(err)
	lines := strings.SplitAfter(ts.ReadFile(args[0]), "\n")
	if lines[len(lines)-1] != "" || len(lines)-1 < least {
		ts.Fatalf("%d whole lines, at least %d were expected", len(lines)-1, least)
	}
	last := int64(1)
	for _, line := range lines[:len(lines)-1] {
		if !json.Valid([]byte(line)) {
			ts.Fatalf("not JSON: %s", line)
		}
		s, version, err := samples.DecodeJSON([]byte(line))
		ts.Check(err)
		if version != rt.Version || s.TimestampSecs < last || !s.CPU.UtilizationPct.Valid() || s.CPU.ProcessCount.Or(0) < 1 {
			ts.Fatalf("version %q, time %d after %d, in %s", version, s.TimestampSecs, last, line)
		}
		last = s.TimestampSecs
	}
}

// cmdCSV checks that a file has a header and at least so many rows.
func cmdCSV(ts *testscript.TestScript, neg bool, args []string) {
	least, err := strconv.Atoi(args[1])
	ts.Check(err)
	_, rows, err := samples.ReadCSV(strings.NewReader(ts.ReadFile(args[0])))
	ts.Check(err)
	n := 0
	for row, err := range rows {
		ts.Check(err)
		if row.Timestamp < 1 || !row.Scalars.MemFree.Valid() {
			ts.Fatalf("row %d: %+v", n+1, row)
		}
		n++
	}
	if n < least {
		ts.Fatalf("%d rows, at least %d were expected", n, least)
	}
}

// cmdRun prints what the one run of a spool directory is.
func cmdRun(ts *testscript.TestScript, neg bool, args []string) {
	entries, err := spool.List(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(entries) != 1 || entries[0].Live {
		ts.Fatalf("runs: %+v, one that has ended was expected", entries)
	}
	r, err := spool.Open(entries[0].Path)
	ts.Check(err)
	defer r.Close()
	run, err := json.Marshal(r.Run())
	ts.Check(err)
	host, err := json.Marshal(r.Host())
	ts.Check(err)
	n, ticks, last := 0, false, rt.ReasonTick
	for s, err := range r.Snapshots(context.Background(), 1, math.MaxInt64) {
		ts.Check(err)
		if n++; n == 1 {
			ticks = s.Tree.CPUUserTicks.Valid()
		}
		last = s.Reason
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s\n%s\nreadings %d, first tree ticks %v, last %s\n", run, host, n, ticks, last)
	events, err := r.Events()
	ts.Check(err)
	for _, e := range events {
		fmt.Fprintln(&out, e.Kind, e.Name, e.Status, e.Detail)
	}
	_, err = ts.Stdout().Write(out.Bytes())
	ts.Check(err)
}
