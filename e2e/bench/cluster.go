package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cluster runs jobs with the hooks of a node.
type cluster interface {
	// start runs a job of so many processes, with a tracker that reads it at an interval.
	start(processes int, interval string) (*job, error)
	end(*job) error
	spool() string // the directory of the runs
	close() error
}

// job is a running job and its tracker.
type job struct {
	id      int
	tracker int      // pid
	cgroups []string // the directories of its CPU time and memory, with those of its steps and tasks
	lists   []string // files with the processes of its steps
	command *exec.Cmd
}

// newCluster starts a Slurm, or if this machine cannot have one, makes the cgroups by
// itself. The reason goes to standard error.
func newCluster(bin, dir string) (cluster, error) {
	n, err := newNode(bin, dir, "cluster")
	if err != nil {
		return nil, err
	}
	work, err := buildWork(n.dir)
	if err != nil {
		return nil, err
	}
	if os.Getuid() != 0 {
		return nil, errors.New("trackers of real jobs need root: run the benchmark as root, or choose other parts with -only")
	}
	if !noSlurm {
		lab, err := newLab(n, work)
		if err == nil {
			return lab, nil
		}
		fmt.Fprintf(os.Stderr, "bench: no Slurm (%v): the jobs are processes in cgroups like those of Slurm\n", err)
	}
	return &bare{node: n, work: work}, nil
}

// buildWork compiles the processes of the jobs.
func buildWork(dir string) (string, error) {
	work := filepath.Join(dir, "work")
	out, err := exec.Command("gcc", "-O2", "-o", work, "e2e/bench/testdata/work.c").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("gcc work.c: %w\n%s", err, out)
	}
	return work, nil
}

// lab is a real Slurm of one node on this machine.
type lab struct {
	node node
	work string
}

const slurmLab = "contrib/lab/slurm-lab"

// nodeName is the name of the only node. SLURM_LAB_PREFIX is another one where the machine has a second Slurm.
func nodeName() string { return cmp.Or(os.Getenv("SLURM_LAB_PREFIX"), "n") + "1" }

func newLab(n node, work string) (*lab, error) {
	l := &lab{node: n, work: work}
	for _, h := range []string{"prolog", "epilog"} {
		text, err := os.ReadFile(filepath.Join("contrib/slurm/hooks", h))
		if err != nil {
			return nil, err
		}
		text = bytes.ReplaceAll(text, []byte("/usr/local/libexec/rt/rt-"+h), []byte(filepath.Join(n.bin, "rt-"+h)+" --config "+n.config))
		if err := os.WriteFile(filepath.Join(n.dir, h), text, 0o755); err != nil {
			return nil, err
		}
	}
	os.Setenv("SLURM_LAB_DIR", filepath.Join(filepath.Dir(n.dir), "lab"))
	os.Setenv("SLURM_LAB_PORT", cmp.Or(os.Getenv("SLURM_LAB_PORT"), "18800"))
	err := l.command(nil, "up", "--fresh", "--no-dbd", "--prolog", filepath.Join(n.dir, "prolog"), "--epilog", filepath.Join(n.dir, "epilog"),
		"--conf", "PartitionName=many Nodes=ALL OverSubscribe=FORCE:80 MaxTime=INFINITE DefaultTime=60 State=UP")
	if err == nil {
		err = giveTo("rt", n.spool())
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func giveTo(name, path string) error {
	u, err := user.Lookup(name)
	if err != nil {
		return err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	return os.Chown(path, uid, -1)
}

// command runs slurm-lab and returns its last lines as an error if it fails.
func (l *lab) command(out *bytes.Buffer, args ...string) error {
	cmd := exec.Command(slurmLab, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if out != nil {
		cmd.Stdout = out
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("slurm-lab %s: %w: %s", args[0], err, strings.TrimSpace(errs.String()))
	}
	return nil
}

func (l *lab) start(processes int, interval string) (*job, error) {
	return l.submit("exec "+l.work+" "+strconv.Itoa(processes), processes, interval)
}

// submit runs a script as a job, and waits until it has so many processes.
func (l *lab) submit(script string, processes int, interval string) (*job, error) {
	if err := l.node.configure("", "rt", interval); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	memory := fmt.Sprintf("--mem=%d", max(20, processes))
	err := l.command(&out, "run", "sbatch", "--parsable", "-p", "many", "-n1", memory, "--time=UNLIMITED", "-o", "/dev/null", "--wrap", script)
	if err != nil {
		return nil, err
	}
	id, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		return nil, fmt.Errorf("sbatch printed %q", out.String())
	}
	j := &job{id: id}
	return j, j.ready(l.node, processes)
}

func (l *lab) end(j *job) error {
	if err := l.command(nil, "root", "scancel", strconv.Itoa(j.id)); err != nil {
		return err
	}
	return j.gone(l.node)
}

func (l *lab) spool() string { return l.node.spool() }

func (l *lab) close() error { return l.command(nil, "down", "--reap") }

// bare makes cgroups as Slurm does, and runs the hooks.
type bare struct {
	node node
	work string
	last int
}

func (b *bare) start(processes int, interval string) (*job, error) {
	if err := b.node.configure("", "root", interval); err != nil {
		return nil, err
	}
	b.last++
	j := &job{id: b.last}
	if _, err := b.node.hook("rt-prolog", "prolog_slurmd", j.id); err != nil {
		return nil, err
	}
	if err := b.run(j, processes); err != nil {
		return nil, err
	}
	return j, j.ready(b.node, processes)
}

// run starts the processes of a job in new cgroups, with the variables of a batch script: without them the tracker
// looks for the job's name all the time.
func (b *bare) run(j *job, processes int) error {
	script := fmt.Sprintf("export SLURM_JOB_ID=%d SLURM_JOB_NAME=bench SLURM_TASK_PID=$$; ", j.id)
	for _, dir := range bareCgroups(j.id) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("no cgroup for a job: %w", err)
		}
		script += "echo $$ >" + dir + "/cgroup.procs && "
	}
	j.command = exec.Command("sh", "-c", script+"exec "+b.work+" "+strconv.Itoa(processes))
	return j.command.Start()
}

// stop ends the processes of a job and removes its cgroups.
func (b *bare) stop(j *job) error {
	err := errors.Join(j.command.Process.Kill(), ignoreExit(j.command.Wait()))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		dirs := j.directories()
		var busy error
		for _, dir := range slices.Backward(dirs) {
			busy = errors.Join(busy, os.Remove(dir)) // its processes may still end
		}
		if busy == nil || time.Now().After(deadline) {
			return errors.Join(err, busy)
		}
	}
}

// bareCgroups returns the directories of the batch step of a job.
func bareCgroups(id int) []string {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return []string{fmt.Sprintf("%s/system.slice/slurmstepd.scope/job_%d/step_batch/user/task_0", root, id)}
	}
	var dirs []string
	for _, c := range []string{"memory", "cpuacct", "freezer"} {
		dirs = append(dirs, fmt.Sprintf("%s/%s/slurm_%s/uid_0/job_%d/step_batch", root, c, nodeName(), id))
	}
	return dirs
}

func (b *bare) end(j *job) error {
	err := b.stop(j)
	_, failed := b.node.hook("rt-epilog", "epilog_slurmd", j.id)
	return errors.Join(err, failed, j.gone(b.node))
}

// pass runs a process in the cgroups of a job for a moment, so that the tracker has taken its
// last reading before the Epilog, as in a real job. Without root the job has no process.
func (b *bare) pass(j *job) error {
	const moment = 100 * time.Millisecond
	if os.Getuid() != 0 {
		return nil
	}
	if err := b.run(j, 1); err != nil {
		return err
	}
	time.Sleep(moment)
	err := b.stop(j)
	time.Sleep(2 * moment)
	return err
}

// ignoreExit drops the error of a process that was ended on purpose.
func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

func (b *bare) spool() string { return b.node.spool() }

// close removes the parents of the jobs' cgroups, as far as they are empty.
func (b *bare) close() error {
	for _, dir := range bareCgroups(b.last) {
		for ; filepath.Base(dir) != "system.slice" && filepath.Base(filepath.Dir(dir)) != "cgroup"; dir = filepath.Dir(dir) {
			_ = os.Remove(dir) // another Slurm may use it
		}
	}
	return nil
}

// ready waits until all processes of a job run, and finds its tracker and its cgroups.
func (j *job) ready(n node, processes int) error {
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(n.state, fmt.Sprintf("%d@%s.json", j.id, nodeName())))
		if err != nil {
			continue // the Prolog has not started
		}
		var state struct {
			PID int `json:"pid"`
		}
		if json.Unmarshal(text, &state) != nil || state.PID == 0 {
			continue
		}
		j.tracker = state.PID
		if j.processes() >= processes {
			j.find()
			return nil
		}
	}
	return fmt.Errorf("job %d has %d of %d processes and the tracker %d after two minutes", j.id, j.processes(), processes, j.tracker)
}

// gone waits until the tracker of a job has ended.
func (j *job) gone(n node) error {
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		_, err := os.Stat(filepath.Join(n.state, fmt.Sprintf("%d@%s.json", j.id, nodeName())))
		if errors.Is(err, fs.ErrNotExist) {
			return n.quiet()
		}
	}
	return fmt.Errorf("the tracker %d of job %d has not ended after two minutes", j.tracker, j.id)
}

// directories returns the cgroups of a job in all hierarchies, parents first.
func (j *job) directories() []string {
	var dirs []string
	for _, pattern := range []string{"/sys/fs/cgroup/*/slurm_" + nodeName() + "/uid_*/job_%d", "/sys/fs/cgroup/system.slice/*slurmstepd.scope/job_%d"} {
		roots, err := filepath.Glob(fmt.Sprintf(pattern, j.id))
		if err != nil {
			continue
		}
		for _, root := range roots {
			_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return nil
			})
		}
	}
	return dirs
}

// processes counts the processes of the hierarchy that has most of them.
func (j *job) processes() (most int) {
	counts := map[string]int{}
	for _, dir := range j.directories() {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		tree, _, _ := strings.Cut(dir, "/job_")
		counts[tree] += bytes.Count(text, []byte("\n"))
		most = max(most, counts[tree])
	}
	return most
}

func (j *job) find() {
	for _, dir := range j.directories() {
		switch {
		case strings.HasPrefix(dir, "/sys/fs/cgroup/freezer/"):
			j.lists = append(j.lists, filepath.Join(dir, "cgroup.procs"))
		case strings.HasPrefix(dir, "/sys/fs/cgroup/cpuacct/"), strings.HasPrefix(dir, "/sys/fs/cgroup/memory/"), strings.HasPrefix(dir, "/sys/fs/cgroup/system.slice/"):
			j.cgroups = append(j.cgroups, dir)
		}
	}
}
