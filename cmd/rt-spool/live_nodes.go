package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/internal/telemetry"
	"github.com/resource-tracker/rt/slurm/environ"
)

// gathering reads from rt-spool live on the other nodes of a job, each of which a
// program that proves who we are has started there: srun or ssh.
type gathering struct {
	commands map[string][]string // by node
	warn     func(error)
}

// newGathering says how to reach the job's other nodes.
func newGathering(c *cli.Context, run *rt.Run, warn func(error)) (*gathering, error) {
	nodes, err := otherNodes(c, run)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find rt-spool on the other nodes: %w", err)
	}
	id, _ := run.JobID.Get()
	job := strconv.FormatUint(id, 10)
	name := cmp.Or(run.Meta.JobName, nameInside(run), "rt-spool")
	g := &gathering{commands: map[string][]string{}, warn: warn}
	for _, node := range nodes {
		there := []string{self, "live", "--peers", "--node", node, job}
		switch c.String("via") {
		case "srun":
			g.commands[node] = append([]string{
				"srun", "--jobid=" + job, "--overlap", "--nodes=1", "--ntasks=1", "--nodelist=" + node,
				"--job-name=" + name, // a tracker there may take the job's name from it
				"--mpi=none", "--cpu-bind=none", "--input=none", "--quiet",
			}, there...)
		case "ssh":
			g.commands[node] = append([]string{"ssh", "-o", "BatchMode=yes", "--", node}, there...)
		default:
			return nil, rtcli.Usage("--via %q: it is srun or ssh", c.String("via"))
		}
	}
	return g, nil
}

// nameInside is the job's name as the job itself is told: its tracker may not have read
// it yet when the job begins with rt-spool live. Empty outside of the job.
func nameInside(run *rt.Run) string {
	if !insideJob(run) {
		return ""
	}
	return os.Getenv("SLURM_JOB_NAME")
}

// otherNodes are the job's nodes without this one.
func otherNodes(c *cli.Context, run *rt.Run) ([]string, error) {
	list := run.NodeList
	if text := c.String("nodes"); text != "" {
		list = text
	}
	if list == "" && insideJob(run) {
		list = os.Getenv("SLURM_JOB_NODELIST")
	}
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

// run feeds a job's source until ctx is done. Where a node's stream ends it is asked
// again, with pauses that grow.
func (g *gathering) run(ctx context.Context, j *telemetry.Joint) {
	var all sync.WaitGroup
	for node, command := range g.commands {
		all.Go(func() {
			defer recovery.Handle(g.warn)
			told := false
			for wait := time.Second; ; wait = min(2*wait, time.Minute) {
				err := listen(ctx, j, node, command)
				if ctx.Err() != nil {
					return
				}
				if err != nil && !told {
					told = true
					g.warn(fmt.Errorf("node %s cannot be watched now: %w", node, err))
				}
				select {
				case <-ctx.Done():
					return
				case <-time.After(wait):
				}
			}
		})
	}
	all.Wait()
}

// ourStep is an environment without what Slurm has said of the job around us: srun
// takes SLURM_NTASKS_PER_NODE and the like for options of our own step. How to reach
// the cluster stays.
func ourStep(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "SLURM") && !strings.HasPrefix(name, "SLURM_CONF") && name != "SLURM_JWT"
	})
}

// listen reads what one node's rt-spool live prints, until it ends.
func listen(ctx context.Context, j *telemetry.Joint, node string, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	cmd.Env = ourStep(os.Environ())
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = j.Read(ctx, node, out)
	if err != nil {
		_ = cmd.Cancel() // what it says is of no use
	}
	return errors.Join(err, cmd.Wait())
}
