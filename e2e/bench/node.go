package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// nodeName is no name of a node in contrib/lab, so that a Slurm of this machine has other cgroups.
const nodeName = "bench1"

// node is a node that runs hooks as slurmd runs them, and jobs in cgroups like Slurm's.
type node struct {
	bin, dir, state, config string
	work                    string // the program of the jobs
	running                 []*job
}

// newNode makes the directories of a node.
func newNode(bin, dir, name string) (*node, error) {
	n := &node{bin: bin, dir: filepath.Join(dir, name)}
	n.config, n.state = filepath.Join(n.dir, "rt.toml"), filepath.Join(stateRoot(dir), name, "state")
	n.work = filepath.Join(n.dir, "work")
	for _, d := range []string{n.spool(), n.state} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	out, err := exec.Command("gcc", "-O2", "-o", n.work, "e2e/bench/testdata/work.c").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("gcc work.c: %w\n%s", err, out)
	}
	return n, nil
}

// configure writes rt.toml for the jobs that start from now on, with the given tracker,
// empty for the real one. A reading at the start is not followed by more frequent ones.
func (n *node) configure(tracker string, interval time.Duration) error {
	if tracker == "" {
		tracker = filepath.Join(n.bin, "rt-tracker")
	}
	text := fmt.Sprintf("[spool]\ndir = %q\nuser = \"root\"\n[tracker]\npath = %q\ninterval = %q\nfirst_for = \"0s\"\nbudget_cpu = 0\nstate_dir = %q\n"+
		"[hooks]\nready_timeout = \"10s\"\nstop_timeout = \"10s\"\ndisable_file = %q\n[log]\ntarget = %q\n",
		n.spool(), tracker, interval, n.state, filepath.Join(n.dir, "disabled"), n.log())
	return os.WriteFile(n.config, []byte(text), 0o644)
}

func (n *node) spool() string { return filepath.Join(n.dir, "spool") }

func (n *node) log() string { return filepath.Join(n.dir, "log") }

// stateFile names the file in which the Prolog stores the tracker of a job.
func (n *node) stateFile(id int) string {
	return filepath.Join(n.state, fmt.Sprintf("%d@%s.json", id, nodeName))
}

// stateRoot returns the parent of state directories: a tmpfs, as /run is, if the machine
// has one.
func stateRoot(dir string) string {
	const tmpfs = 0x01021994 // TMPFS_MAGIC, statfs(2)
	var fs syscall.Statfs_t
	err := syscall.Statfs("/dev/shm", &fs)
	if err == nil && fs.Type == tmpfs {
		return filepath.Join("/dev/shm", filepath.Base(dir))
	}
	return dir
}

// hook runs rt-prolog or rt-epilog for a job and returns how long it took, in ms.
func (n *node) hook(program, context string, id int) (float64, error) {
	cmd := exec.Command(filepath.Join(n.bin, program), "--config", n.config)
	cmd.Env = []string{
		"SLURM_JOB_ID=" + strconv.Itoa(id), "SLURMD_NODENAME=" + nodeName, "SLURM_CLUSTER_NAME=bench", "SLURM_SCRIPT_CONTEXT=" + context,
		"SLURM_JOB_UID=0", "SLURM_JOB_GID=0", "SLURM_JOB_USER=root", "SLURM_NODELIST=" + nodeName, "SLURM_JOB_NUM_NODES=1",
		"SLURM_JOB_CPUS_PER_NODE=1", "SLURM_JOB_EXIT_CODE=0", "SLURM_JOB_EXIT_CODE2=0:0",
	}
	begin := time.Now()
	err := cmd.Run()
	took := milliseconds(time.Since(begin))
	if err != nil {
		return took, fmt.Errorf("%s: %w", program, err)
	}
	return took, nil
}

func (n *node) prolog(id int) (float64, error) { return n.hook("rt-prolog", "prolog_slurmd", id) }
func (n *node) epilog(id int) (float64, error) { return n.hook("rt-epilog", "epilog_slurmd", id) }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// quiet returns an error if a hook or a tracker has logged something.
func (n *node) quiet() error {
	text, err := os.ReadFile(n.log())
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if len(text) > 0 {
		return fmt.Errorf("the hooks have logged: %s", text)
	}
	return nil
}

// startJob runs the Prolog of a job and so many processes in the job's cgroups.
func (n *node) startJob(processes int, interval time.Duration) (*job, error) {
	if os.Getuid() != 0 {
		return nil, errors.New("trackers of jobs need root, to make cgroups: run the benchmark as root, or with -only hooks,drain")
	}
	if err := n.configure("", interval); err != nil {
		return nil, err
	}
	j := &job{id: len(n.running) + 1}
	if _, err := n.prolog(j.id); err != nil {
		return nil, err
	}
	n.running = append(n.running, j)
	if err := j.start(n.work, processes); err != nil {
		return nil, err
	}
	return j, j.ready(n.stateFile(j.id), processes)
}

// close ends all jobs, and removes their cgroups. It returns an error if a tracker has complained.
func (n *node) close() error {
	var all error
	for _, j := range n.running {
		stopped := j.stop()
		_, ended := n.epilog(j.id)
		all = errors.Join(all, stopped, ended, waitGone(n.stateFile(j.id)))
	}
	n.running = nil
	removeCgroups()
	return errors.Join(all, n.quiet())
}
