// Rt-tracker tracks one job on one node, from before its first step to its end.
// rt-prolog starts it with the Run on its standard input; rt-epilog stops it.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/config"
	"github.com/resource-tracker/rt/internal/logging"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is the whole program but for the process around it. Its status is for
// people and tests: no one waits for a tracker.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("rt-tracker", flag.ContinueOnError)
	flags.SetOutput(stderr)
	configFile := flags.String("config", "", "read `FILE` instead of "+config.DefaultPath)
	version := flags.Bool("version", false, "print the version and exit")
	setUsage(flags)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if *version {
		fmt.Fprintln(stdout, "rt-tracker", rt.Version)
		return 0
	}
	if cli.IsTerminal(stdin) {
		fmt.Fprint(stderr, about)
		return 2
	}
	prolog := openReady()
	log := logging.New(logging.Options{Program: "rt-tracker", Target: logging.Syslog, DevLog: logging.DevLog, Fallback: logging.FallbackFile, Last: stderr})
	defer func() { log.Close(time.Second) }()
	err := surviving(func() error { return track(*configFile, stdin, stderr, &log, prolog) })
	if err == nil {
		return 0
	}
	if !prolog.say("error: " + err.Error()) {
		(*log).Error("", err)
		if cli.IsTerminal(stderr) { // who looks there does not look into the log
			fmt.Fprintln(stderr, "rt-tracker:", err)
		}
	}
	return 1
}

// surviving makes a fault of ours an error. Drain closes the run as lost, with all
// that was committed.
func surviving(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a fault of rt-tracker, please report it: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// track reads the configuration and the run, and tracks it to its end. last takes
// what cannot be logged: the Prolog opened the log file for it while it was root.
func track(configFile string, stdin io.Reader, last io.Writer, log **logging.Logger, prolog *ready) error {
	told := listen()
	cfg, err := config.Load(configFile)
	if err != nil {
		return err
	}
	*log = logging.New(logging.Options{Program: "rt-tracker", Target: cfg.Log.Target, DevLog: logging.DevLog, Fallback: logging.FallbackFile, Last: last, Async: true})
	tracked, err := readRun(stdin)
	if err != nil {
		return err
	}
	beCheap()
	t, err := newTracker(cfg, tracked, *log)
	if err != nil {
		return err
	}
	return t.run(prolog, told)
}

// maxRun bounds what is read from standard input, in bytes.
const maxRun = 1 << 20

func readRun(r io.Reader) (rt.Run, error) {
	var out rt.Run
	text, err := io.ReadAll(io.LimitReader(r, maxRun))
	if err != nil {
		return out, fmt.Errorf("read the run from standard input: %w", err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, fmt.Errorf("the run on standard input is not what rt-prolog writes: %w", err)
	}
	if !out.JobID.Valid() || out.Node == "" || out.Start.IsZero() {
		return out, errors.New("the run on standard input lacks its job id, node or start; rt-tracker is started by rt-prolog, not by hand")
	}
	return out, nil
}

// beCheap makes the process as small as it can be: it shares its node with jobs
// that paid for it. Nothing is collected while the Prolog waits, nor an Epilog that
// soon follows, see collectGarbage, unless it gets so much that it has to be.
func beCheap() {
	const most = 64 << 20 // bytes; a start takes a tenth of that
	runtime.GOMAXPROCS(2) // one for the thread that must be on time, see bePolite
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(most)
	syscall.Umask(0o027)
}

// collectGarbage begins to keep the heap small, with the first readings behind us.
func collectGarbage() {
	debug.SetGCPercent(25)
	debug.SetMemoryLimit(math.MaxInt64) // near a limit it would run all the time
}

// bePolite gives the processors to whoever wants them. The priority is a thread's
// own, and new threads inherit it, see setpriority(2). It comes after "ready": on
// a node whose every core is busy the Prolog would wait for a polite tracker in vain.
// The thread that takes a job's last readings is left alone: the counters are gone
// 5 to 10 ms after the job's last process, and on a busy core a polite thread
// would come too late. It sleeps until then.
func bePolite(except int) {
	const lowest = 19
	setNice(lowest, except)
}

// beUrgent takes that back: an Epilog waits, and on a busy node it would wait for a
// polite tracker for long. The Prolog has seen to it that a tracker may (RLIMIT_NICE).
func beUrgent() { setNice(0, 0) }

// beOnTime is beUrgent for the thread that takes a job's last readings, where it has
// begun after bePolite: that of a cgroup which seek has found.
func beOnTime(thread int) {
	const zero = 20 // as getpriority(2) has it in the kernel
	if p, err := syscall.Getpriority(syscall.PRIO_PROCESS, thread); err == nil && p < zero {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, thread, 0) // where it may not, it may come late
	}
}

// setNice sets the nice value of all threads but one.
func setNice(nice, except int) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return // a tracker at any priority is better than none
	}
	for _, t := range threads {
		if tid, err := strconv.Atoi(t.Name()); err == nil && tid != except {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, tid, nice) // a thread that has ended needs none, and some may not go back
		}
	}
}
