package telemetry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/internal/wait"
)

// Remote starts rt-spool live on the other nodes of a job, by srun or ssh, and reads its output.
type Remote struct {
	Nodes   []string
	SSH     bool     // start it by ssh, not by srun
	Program string   // path of rt-spool on all nodes
	JobID   string   // decimal
	JobName string   // of the srun step: a tracker there may take the job's name from it
	Env     []string // of srun and ssh, see StepEnv
}

// command returns the argument vector that prints the telemetry of a node.
func (r *Remote) command(node string) []string {
	live := []string{r.Program, "live", "--peers", "--node", node, r.JobID}
	if r.SSH {
		return append([]string{"ssh", "-o", "BatchMode=yes", "--", node}, live...)
	}
	return append([]string{
		"srun", "--jobid=" + r.JobID, "--overlap", "--nodes=1", "--ntasks=1", "--nodelist=" + node, "--job-name=" + r.JobName,
		"--mpi=none", "--cpu-bind=none", "--input=none", "--quiet",
	}, live...)
}

// StepEnv removes Slurm's description of the surrounding job from an environment: srun
// takes SLURM_NTASKS_PER_NODE and the like as options of a new step. What srun needs to
// reach the cluster stays.
func StepEnv(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "SLURM") && !strings.HasPrefix(name, "SLURM_CONF") && name != "SLURM_JWT"
	})
}

// gather feeds j until ctx is done. It restarts a program that ends, after pauses that grow.
func (r *Remote) gather(ctx context.Context, j *Joint, warn func(error)) {
	var all sync.WaitGroup
	for _, node := range r.Nodes {
		all.Go(func() {
			defer recovery.Handle(warn)
			reported := false
			for pause := time.Second; ; pause = min(2*pause, time.Minute) {
				err := r.read(ctx, j, node)
				if ctx.Err() != nil {
					return
				}
				if err != nil && !reported {
					reported = true
					warn(fmt.Errorf("node %s cannot be watched now: %w", node, err))
				}
				if !wait.For(ctx, pause) {
					return
				}
			}
		})
	}
	all.Wait()
}

// read feeds j with what one node's rt-spool live prints, until it ends.
func (r *Remote) read(ctx context.Context, j *Joint, node string) error {
	command := r.command(node)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	cmd.Env = r.Env
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
		_ = cmd.Cancel() // its output is of no use
	}
	return errors.Join(err, cmd.Wait())
}
