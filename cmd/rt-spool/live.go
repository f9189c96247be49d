package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/format/gempba/live"
	"github.com/resource-tracker/rt/slurm/environ"
	"github.com/resource-tracker/rt/spool"
)

func liveCommand() *cli.Command {
	return &cli.Command{
		Name:      "live",
		Usage:     "broadcast what a job's tasks on this node do, as GemPBA's telemetry",
		ArgsUsage: "JOB",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Usage: "serve clients at `ADDRESS`: HOST:PORT or unix:PATH (default: print the lines)"},
			&cli.BoolFlag{Name: "job", Usage: "all nodes of the job: reach the others by srun or ssh"},
			&cli.StringFlag{Name: "nodes", Usage: "the job's nodes are `LIST`, as squeue shows it (default: as recorded by its tracker, or SLURM_JOB_NODELIST)"},
			&cli.StringFlag{Name: "via", Value: "srun", Usage: "reach the other nodes by `PROGRAM`: srun (a step that overlaps), or ssh"},
			&cli.StringFlag{Name: "node", Usage: "this node's `NAME` in Slurm, if the host has several"},
			&cli.BoolFlag{Name: "peers", Usage: "include the tasks' connections to other nodes, as --job needs"},
		},
		Action: runLive,
	}
}

func runLive(c *cli.Context) error {
	if c.NArg() != 1 {
		return rtcli.Usage("live takes one JOB that runs on this node; rt-spool ls shows what there is")
	}
	var address live.Address
	if text := c.String("listen"); text != "" {
		var err error
		address, err = live.ParseAddress(text)
		if err != nil {
			return rtcli.Usage("--listen %w", err)
		}
	}
	run, err := liveRun(c)
	if err != nil {
		return err
	}
	job, err := live.OpenJob(run)
	if err != nil {
		return err
	}
	defer job.Close()
	if uid := os.Geteuid(); uid != 0 && uid != job.Owner() {
		return fmt.Errorf("job %s is of user %d: only the job's owner and root may watch it", run.Label(), job.Owner())
	}
	var others *live.Remote
	if c.Bool("job") {
		others, err = liveRemote(c, run)
		if err != nil {
			return err
		}
	}
	ctx, cancel := job.UntilEnded(c.Context)
	defer cancel()
	warn := func(err error) { rtcli.Message(c.App.ErrWriter, "rt-spool", "warning: %v", err) }
	return job.Watch(ctx, others, c.Bool("peers"), warn, func(source live.FrameSource) error {
		if !c.IsSet("listen") {
			return live.Print(ctx, source, c.App.Writer)
		}
		return serveLive(ctx, c, source, address, job.Owner(), warn)
	})
}

// serveLive broadcasts until ctx is done.
func serveLive(ctx context.Context, c *cli.Context, source live.FrameSource, a live.Address, owner int, warn func(error)) error {
	listener, err := live.Listen(ctx, a, owner)
	if err != nil {
		return err
	}
	if listener.Public() {
		warn(fmt.Errorf("every user that reaches this machine can watch the job at %s; --listen 127.0.0.1:PORT is for this machine only", listener.Addr()))
	}
	if _, err := fmt.Fprintf(c.App.Writer, "listening on %s\n", listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	live.NewServer(source, warn).Serve(ctx, listener)
	return nil
}

// liveRun identifies the job by its spool file, else by its number.
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
	run.Node = cmp.Or(c.String("node"), run.Node, jobEnv(&run, "SLURMD_NODENAME"))
	if run.Node == "" {
		run.Node, err = os.Hostname()
		return &run, err
	}
	return &run, nil
}

// jobEnv returns a variable of the environment if this process is in the job.
func jobEnv(run *rt.Run, name string) string {
	id, ok := run.JobID.Get()
	if ok && os.Getenv("SLURM_JOB_ID") == strconv.FormatUint(id, 10) {
		return os.Getenv(name)
	}
	return ""
}

// liveRemote describes how to reach the job's other nodes.
func liveRemote(c *cli.Context, run *rt.Run) (*live.Remote, error) {
	via := c.String("via")
	if via != "srun" && via != "ssh" {
		return nil, rtcli.Usage("--via %q: it is srun or ssh", via)
	}
	nodes, err := otherNodes(c, run)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find rt-spool on the other nodes: %w", err)
	}
	id, _ := run.JobID.Get()
	return &live.Remote{
		Nodes: nodes, SSH: via == "ssh", Program: self, JobID: strconv.FormatUint(id, 10),
		// A job that begins with rt-spool live is earlier than the metadata of its tracker.
		JobName: cmp.Or(run.Meta.JobName, jobEnv(run, "SLURM_JOB_NAME"), "rt-spool"),
		Env:     live.StepEnv(os.Environ()),
	}, nil
}

// otherNodes returns the job's nodes without this one.
func otherNodes(c *cli.Context, run *rt.Run) ([]string, error) {
	list := cmp.Or(c.String("nodes"), run.NodeList, jobEnv(run, "SLURM_JOB_NODELIST"))
	if list == "" {
		return nil, rtcli.Usage("--job: nothing here says which nodes job %s has; say --nodes LIST, as squeue shows it", run.Label())
	}
	nodes, err := environ.ExpandHosts(list)
	if err != nil {
		return nil, fmt.Errorf("the nodes of job %s: %w", run.Label(), err)
	}
	if !slices.Contains(nodes, run.Node) {
		return nil, rtcli.Usage("--job: this node is %q, which is none of the job's (%s); say --node NAME", run.Node, list)
	}
	for _, node := range nodes {
		if node == "" || node[0] == '-' {
			return nil, rtcli.Usage("--nodes: %q is no node", node)
		}
	}
	return slices.DeleteFunc(nodes, func(node string) bool { return node == run.Node }), nil
}
