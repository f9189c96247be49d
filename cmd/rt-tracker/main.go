// Rt-tracker tracks one job on one node, from before its first step to its end. rt-prolog writes
// the Run to its standard input; rt-epilog stops it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/logging"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/slurm"
	"github.com/resource-tracker/rt/slurm/environ"
	"github.com/resource-tracker/rt/tracker"
)

// about is for a user who starts rt-tracker by hand: it would wait for its standard input.
const about = `rt-tracker tracks one Slurm job on this node. It is not started by hand:
rt-prolog starts it, with the run on its standard input. What it reads goes to
the spool (spool.dir of rt.toml), which rt-spool shows; its messages go to the
log (log.target). To track a command: resource-tracker -- COMMAND
`

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is the program without os.Exit; no program waits for its status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("rt-tracker", flag.ContinueOnError)
	flags.SetOutput(stderr)
	configFile := flags.String("config", "", "read `FILE` instead of "+config.DefaultPath)
	delay := flags.Duration("delay", 0, "wait for `TIME` before the start: many jobs begin at once")
	version := flags.Bool("version", false, "print the version and exit")
	flags.Usage = func() {
		fmt.Fprintf(stderr, "usage: rt-tracker [--config FILE] < RUN\n\n%s\n", about)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if *version {
		fmt.Fprintln(stdout, rt.VersionLine("rt-tracker"))
		return 0
	}
	if cli.IsTerminal(stdin) {
		fmt.Fprint(stderr, about)
		return 2
	}
	prolog := openReady()
	log := logging.New(logging.Places{Program: "rt-tracker", Target: logging.Syslog, DevLog: logging.DevLog, Fallback: logging.FallbackFile, Last: stderr})
	defer func() { log.Close(time.Second) }()
	err := track(*configFile, *delay, stdin, stderr, &log, prolog)
	if err == nil {
		return 0
	}
	if !prolog.send("error: " + err.Error()) {
		log.Error(err.Error())
		if cli.IsTerminal(stderr) { // the log is elsewhere
			fmt.Fprintln(stderr, "rt-tracker:", err)
		}
	}
	return 1
}

// track tracks the run to its end. last receives what cannot be logged: the Prolog opened it
// while it was root. A panic is an error: drain closes the run with all that was committed.
func track(configFile string, delay time.Duration, stdin io.Reader, last io.Writer, log **logging.Logger, prolog *ready) (err error) {
	defer recovery.Handle(func(fault error) { err = fault })
	stop := notifyStop()
	run, noRun := readRun(stdin) // first, because rt-prolog waits until a long run is read
	waitForStart(delay, stop)
	cfg, err := config.Load(configFile)
	if err != nil {
		return err
	}
	*log = logging.New(logging.Places{Program: "rt-tracker", Target: cfg.Log.Target, DevLog: logging.DevLog, Fallback: logging.FallbackFile, Last: last, Async: true})
	if noRun != nil {
		return noRun
	}
	tracker.LimitRuntime()
	syscall.Umask(0o027)
	t, err := newJobTracker(cfg, run, prolog.hasEnded, (*log).Logger)
	if err != nil {
		return err
	}
	t.noteMissedJob()
	return t.run(prolog, stop)
}

// waitForStart waits for the delay, or until the job's Epilog stops this tracker.
func waitForStart(delay time.Duration, stop chan os.Signal) {
	if delay <= 0 {
		return
	}
	select {
	case <-time.After(delay):
	case s := <-stop:
		select {
		case stop <- s: // the run gets the signal and ends at once
		default: // another signal is pending
		}
	}
	tracker.RaisePriority() // rt-prolog has lowered it
}

// maxRun limits what is read from standard input, in bytes. A run is a part of the environment of rt-prolog, which
// has at most 6 MiB, see execve(2).
const maxRun = 8 << 20

func readRun(r io.Reader) (rt.Run, error) {
	var out rt.Run
	text, err := io.ReadAll(io.LimitReader(r, maxRun))
	if err != nil {
		return out, fmt.Errorf("read the run from standard input: %w", err)
	}
	if len(text) == 0 {
		return out, errors.New("there is no run on standard input: rt-prolog was stopped before it sent it")
	}
	out, err = environ.ParsePrologText(text)
	if err != nil {
		return out, fmt.Errorf("the run on standard input is not what rt-prolog writes: %w; rt-tracker is started by rt-prolog, not by hand", err)
	}
	if gid, ok := out.GID.Get(); ok && out.Group == "" {
		out.Group = groupName("/etc/group", gid)
	}
	slurm.Describe(&out)
	return out, nil
}

// groupName returns a group's name from a file in the form of group(5), empty for none. It reads a local file,
// because a directory service can be slow.
func groupName(file string, gid uint64) string {
	group := config.Account(file, 2, strconv.FormatUint(gid, 10))
	if group == nil {
		return ""
	}
	return group[0]
}

// readyFD is where rt-prolog waits for one line: "ready", or "error: ...".
const readyFD = 3

// ready reports to rt-prolog, once, whether tracking has begun.
type ready struct {
	pipe *os.File
}

// openReady uses descriptor 3 if it is a pipe.
func openReady() *ready {
	var st syscall.Stat_t
	if syscall.Fstat(readyFD, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return &ready{}
	}
	syscall.CloseOnExec(readyFD)
	return &ready{pipe: os.NewFile(readyFD, "ready")}
}

// hasEnded reports whether the Prolog may have ended: it no longer waits for the line, so the job may
// have begun.
func (r *ready) hasEnded() bool {
	if r.pipe == nil {
		return true
	}
	fds := []unix.PollFd{{Fd: int32(r.pipe.Fd())}}
	_, err := unix.Poll(fds, 0)
	for err == unix.EINTR { // the runtime of Go sends signals
		_, err = unix.Poll(fds, 0)
	}
	return err != nil || fds[0].Revents != 0 // POLLERR: the reading end is closed
}

// send writes the line, and is false if the Prolog could not read it.
func (r *ready) send(line string) bool {
	if r.pipe == nil {
		return false
	}
	line = strings.ReplaceAll(line, "\n", " ")
	_, err := r.pipe.WriteString(line + "\n")
	r.pipe.Close()
	r.pipe = nil
	return err == nil
}
