package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/collect/cgroup"
	"github.com/resource-tracker/rt/collect/sockets"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/internal/telemetry"
	"github.com/resource-tracker/rt/slurm/layout"
	"github.com/resource-tracker/rt/spool"
)

func liveCommand() *cli.Command {
	return &cli.Command{
		Name:      "live",
		Usage:     "broadcast what a job's tasks on this node do, as GemPBA's telemetry",
		ArgsUsage: "JOB",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Usage: "serve clients at `ADDRESS`: HOST:PORT or unix:PATH (default: print the lines)"},
			&cli.BoolFlag{Name: "job", Usage: "all nodes of the job: the others are asked by srun or ssh"},
			&cli.StringFlag{Name: "nodes", Usage: "the job's nodes are `LIST`, as squeue shows it (default: as its tracker knows, or SLURM_JOB_NODELIST)"},
			&cli.StringFlag{Name: "via", Value: "srun", Usage: "ask the other nodes by `PROGRAM`: srun (a step that overlaps), or ssh"},
			&cli.StringFlag{Name: "node", Usage: "this node's `NAME` in Slurm, where the host has several"},
			&cli.BoolFlag{Name: "peers", Usage: "tell the tasks' connections to other nodes, for who gathers these"},
		},
		OnUsageError: onUsageError,
		Action:       runLive,
	}
}

func runLive(c *cli.Context) error {
	if c.NArg() != 1 {
		return rtcli.Usage("live takes one JOB that runs on this node; rt-spool ls shows what there is")
	}
	var address telemetry.Address
	if text := c.String("listen"); text != "" {
		var err error
		if address, err = telemetry.ParseAddress(text); err != nil {
			return rtcli.Usage("--listen %w", err)
		}
	}
	run, err := liveRun(c)
	if err != nil {
		return err
	}
	job, err := findJob(run)
	if err != nil {
		return err
	}
	defer job.Close()
	owner, err := ownerOf(run, job)
	if err != nil {
		return fmt.Errorf("job %s: %w", run.Label(), err)
	}
	if uid := os.Geteuid(); uid != 0 && uid != owner {
		return fmt.Errorf("job %s is of user %d: only the job's owner and root may watch it", run.Label(), owner)
	}
	ctx, cancel := untilEnded(c.Context, job)
	defer cancel()
	show := func(source telemetry.Source, warn func(error)) error {
		if !c.IsSet("listen") {
			return telemetry.Print(ctx, source, c.App.Writer)
		}
		return serveLive(ctx, c, source, address, owner, warn)
	}
	return watchJob(ctx, c, run, job, show)
}

// watchJob shows the job on this node, or on all of its nodes.
func watchJob(ctx context.Context, c *cli.Context, run *rt.Run, job *cgroup.Job, show func(telemetry.Source, func(error)) error) error {
	warn := func(err error) { fmt.Fprintf(c.App.ErrWriter, "rt-spool: warning: %v\n", err) }
	tasks := telemetry.NewTasks("/proc", job)
	options := telemetry.NodeOptions{
		Hostname: run.Node, Procfs: "/proc", Sysfs: "/sys", Groups: tasks.Groups, Memory: tasks.Memory,
		Peers: c.Bool("job") || c.Bool("peers"), Warn: warn,
	}
	if conns, err := sockets.Open(); err != nil {
		warn(err) // there are no edges then
	} else {
		defer conns.Close()
		options.Conns = conns
	}
	node := telemetry.NewNode(options)
	defer node.Close()
	if !c.Bool("job") {
		return show(node, warn)
	}
	others, err := newGathering(c, run, warn)
	if err != nil {
		return err
	}
	joint := telemetry.NewJoint(node, warn)
	ctx, cancel := context.WithCancel(ctx)
	gathered := make(chan struct{})
	go func() {
		defer close(gathered)
		defer recovery.Handle(warn)
		others.run(ctx, joint)
	}()
	defer func() { cancel(); <-gathered }()
	return show(joint, warn)
}

// serveLive broadcasts until ctx is done.
func serveLive(ctx context.Context, c *cli.Context, source telemetry.Source, a telemetry.Address, owner int, warn func(error)) error {
	listener, err := telemetry.Listen(ctx, a, owner)
	if err != nil {
		return err
	}
	if listener.Public() {
		warn(fmt.Errorf("whoever reaches this machine can watch the job at %s; --listen 127.0.0.1:PORT is for this machine alone", listener.Addr()))
	}
	if _, err := fmt.Fprintf(c.App.Writer, "listening on %s\n", listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	server := telemetry.NewServer(source, warn)
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		defer recovery.Handle(warn)
		server.Accept(ctx, listener)
	}()
	server.Run(ctx)
	<-accepting
	return nil
}

// liveRun is what is known of the job. Its spool file, which root may read while it is
// written, knows most; else a job's number must do.
func liveRun(c *cli.Context) (*rt.Run, error) {
	name := c.Args().First()
	run := rt.Run{}
	entries, err := entriesOf(c, []string{name})
	at := slices.IndexFunc(entries, func(e spool.Entry) bool { return e.Err == nil && e.Live })
	number, notNumber := strconv.ParseUint(name, 10, 63)
	switch {
	case at >= 0:
		run = entries[at].Run
	case notNumber == nil:
		run.JobID.Set(number)
	case len(entries) > 0 && entries[0].Err == nil:
		return nil, fmt.Errorf("job %s is not tracked any more: rt-spool export --format gempba replays what was kept of it", name)
	case err != nil:
		return nil, fmt.Errorf("%w; a job that runs is also found by its job id, the number", err)
	default:
		return nil, fmt.Errorf("job %s: its spool file says nothing of it now; a job that runs is also found by its job id, the number", name)
	}
	if node := c.String("node"); node != "" {
		run.Node = node
	} else if run.Node == "" && insideJob(&run) {
		run.Node = os.Getenv("SLURMD_NODENAME")
	}
	if run.Node == "" {
		run.Node, err = os.Hostname()
	} else {
		err = nil
	}
	return &run, err
}

// insideJob says whether we run in the job: Slurm's environment is then about it.
func insideJob(run *rt.Run) bool {
	id, ok := run.JobID.Get()
	return ok && os.Getenv("SLURM_JOB_ID") == strconv.FormatUint(id, 10)
}

// settle is how long a job's cgroup that exists may take to be found whole.
const settle = time.Second

// findJob finds the job's cgroup on this node.
func findJob(run *rt.Run) (*cgroup.Job, error) {
	mounts, err := cgroupfs.ReadMounts("/proc")
	if err != nil {
		return nil, err
	}
	job, err := cgroup.NewJob(layout.Candidates(run, mounts), cgroup.Options{})
	if err != nil {
		return nil, fmt.Errorf("look for the cgroup of job %s: %w", run.Label(), err)
	}
	if job.Phase() != rt.JobPresent {
		select {
		case <-job.Events(): // controllers of version 1 appear one after the other
		case <-time.After(settle):
		}
	}
	if job.Phase() != rt.JobPresent {
		return nil, errors.Join(fmt.Errorf("job %s has no cgroup on this node: it does not run here", run.Label()), job.Close())
	}
	return job, nil
}

// ownerOf is the user whose job it is: as its tracker knows, or else by its processes.
func ownerOf(run *rt.Run, job *cgroup.Job) (int, error) {
	if uid, ok := run.UID.Get(); ok {
		return int(uid), nil
	}
	pids := job.Procs(nil)
	slices.Sort(pids)
	root := false
	for _, pid := range pids {
		st, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
		if err != nil {
			continue // it has just ended
		}
		uid := int(st.Sys().(*syscall.Stat_t).Uid)
		if uid != 0 {
			return uid, nil
		}
		root = true // setuid programs of any user's job are root's, too
	}
	if root {
		return 0, nil
	}
	return 0, errors.New("it has no process on this node now: try again once it has")
}

// untilEnded is done when the job's cgroup is gone.
func untilEnded(ctx context.Context, job *cgroup.Job) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer recovery.Handle(func(error) { cancel() }) // nobody would see the end otherwise
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-job.Events():
				if e == collect.JobEnded {
					cancel()
					return
				}
			}
		}
	}()
	return ctx, cancel
}
