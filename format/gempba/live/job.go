package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/collect/cgroup"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/slurm/layout"
)

// settleTime is how long the controllers of an existing job may take to be found.
const settleTime = time.Second

// SlurmJob is a running job of Slurm on this node.
type SlurmJob struct {
	run    *rt.Run
	cgroup *cgroup.Job
	owner  int
}

// OpenJob finds the cgroup of a job on this node and the job's owner: the user of run, else the owner of the job's
// processes. The caller closes the SlurmJob.
func OpenJob(run *rt.Run) (*SlurmJob, error) {
	group, err := findGroup(run)
	if err != nil {
		return nil, err
	}
	j := &SlurmJob{run: run, cgroup: group}
	uid, known := run.UID.Get()
	j.owner = int(uid)
	if known {
		return j, nil
	}
	j.owner, err = ownerOf(group)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("job %s: %w", run.Label(), err), j.Close())
	}
	return j, nil
}

// Owner returns the user id of the job's owner.
func (j *SlurmJob) Owner() int { return j.owner }

// Close releases the watches of the job's cgroup.
func (j *SlurmJob) Close() error { return j.cgroup.Close() }

func findGroup(run *rt.Run) (*cgroup.Job, error) {
	mounts, err := cgroupfs.ReadMounts("/proc")
	if err != nil {
		return nil, err
	}
	job, err := cgroup.NewJob(layout.Candidates(run, mounts), layout.Slurm{}, cgroup.Options{})
	if err != nil {
		return nil, fmt.Errorf("look for the cgroup of job %s: %w", run.Label(), err)
	}
	if job.Phase() != rt.JobPresent {
		select {
		case <-job.Events(): // controllers of version 1 appear one after the other
		case <-time.After(settleTime):
		}
	}
	if job.Phase() != rt.JobPresent {
		return nil, errors.Join(fmt.Errorf("job %s has no cgroup on this node: it does not run here", run.Label()), job.Close())
	}
	return job, nil
}

// ownerOf returns the owner of the job's processes; root last, as setuid programs are root's.
func ownerOf(job *cgroup.Job) (int, error) {
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
		root = true
	}
	if !root {
		return 0, errors.New("it has no process on this node now: try again once it has")
	}
	return 0, nil
}

// UntilEnded returns a context that is done when the job's cgroup is gone.
func (j *SlurmJob) UntilEnded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer recovery.Handle(func(error) { cancel() }) // without this loop the end would be missed
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-j.cgroup.Events():
				if e == collect.JobEnded {
					cancel()
					return
				}
			}
		}
	}()
	return ctx, cancel
}

// Watch calls show with the source of the job's tasks on this node. With others the
// source also has the tasks of those nodes. With peers the source includes connections
// to other nodes, which the source of several nodes needs.
func (j *SlurmJob) Watch(ctx context.Context, others *Remote, peers bool, warn func(error), show func(FrameSource) error) error {
	tasks := NewTasks("/proc", j.cgroup)
	options := NodeOptions{
		Hostname: j.run.Node, Procfs: "/proc", Sysfs: "/sys", Groups: tasks.Groups, Memory: tasks.Memory,
		Peers: peers || others != nil, Warn: warn,
	}
	if conns, err := OpenConns(); err != nil {
		warn(err) // there are no edges then
	} else {
		defer conns.Close()
		options.Conns = conns.Read
	}
	node := NewNode(options)
	defer node.Close()
	if others == nil {
		return show(node)
	}
	joint := NewJoint(node, warn)
	ctx, cancel := context.WithCancel(ctx)
	gathered := make(chan struct{})
	go func() {
		defer close(gathered)
		defer recovery.Handle(warn)
		others.gather(ctx, joint, warn)
	}()
	defer func() { cancel(); <-gathered }()
	return show(joint)
}

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
// reach the cluster stays. It also removes the credentials of uploads, which srun would pass
// on to all nodes.
func StepEnv(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		reachesCluster := strings.HasPrefix(name, "SLURM_CONF") || name == "SLURM_JWT"
		isCredential := strings.HasPrefix(name, "SENTINEL_") || strings.HasPrefix(name, "AWS_")
		isOfJob := strings.HasPrefix(name, "SLURM") && !reachesCluster
		return isOfJob || isCredential
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
				if !recovery.Pause(ctx, pause) {
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
