package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// deadline is how long the bench waits for a process or a cgroup.
const deadline = 2 * time.Minute

// job is a running job and its tracker.
type job struct {
	id      int
	tracker int       // pid
	command *exec.Cmd // of the batch step
}

// start starts the processes of the batch step, with the variables of a batch script. Without them the tracker looks
// for the job's name all the time. The step extern is empty.
func (j *job) start(work string, processes int) error {
	if err := makeCgroups(taskCgroups(j.id, "extern")); err != nil {
		return err
	}
	var err error
	j.command, err = j.startStep("batch", fmt.Sprintf("export SLURM_JOB_ID=%d SLURM_JOB_NAME=bench SLURM_TASK_PID=$$; exec %s %d", j.id, work, processes))
	return err
}

// startStep starts a shell command in the cgroups of a new step.
func (j *job) startStep(step, command string) (*exec.Cmd, error) {
	dirs := taskCgroups(j.id, step)
	if err := makeCgroups(dirs); err != nil {
		return nil, err
	}
	script := ""
	for _, dir := range dirs {
		script += "echo $$ >" + dir + "/cgroup.procs && "
	}
	cmd := exec.Command("sh", "-c", script+"{ "+command+"; }")
	return cmd, cmd.Start()
}

// runStep runs a shell command as a step, and removes the step's cgroups.
func (j *job) runStep(step, command string) error {
	cmd, err := j.startStep(step, command)
	if err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("step %s of job %d: %w", step, j.id, err)
	}
	return removeTrees(j.directories("step_" + step))
}

// stop ends the batch step and removes the cgroups of the job.
func (j *job) stop() error {
	if j.command == nil {
		return nil
	}
	err := errors.Join(j.command.Process.Kill(), ignoreExit(j.command.Wait()))
	return errors.Join(err, removeTrees(j.directories("")))
}

// ignoreExit drops the error of a process that was ended on purpose.
func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// ready waits until all processes of a job run, and reads its tracker from the state file of the Prolog.
func (j *job) ready(stateFile string, processes int) error {
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		text, err := os.ReadFile(stateFile)
		if err != nil {
			continue // the Prolog has not started
		}
		var state struct {
			PID int `json:"pid"`
		}
		err = json.Unmarshal(text, &state)
		if err != nil || state.PID == 0 {
			continue
		}
		j.tracker = state.PID
		if j.processes() >= processes {
			return nil
		}
	}
	return fmt.Errorf("job %d has %d of %d processes and the tracker %d after %s", j.id, j.processes(), processes, j.tracker, deadline)
}

// waitGone waits until the tracker has removed its state file.
func waitGone(stateFile string) error {
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		_, err := os.Stat(stateFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return fmt.Errorf("the tracker of %s has not ended after %s", stateFile, deadline)
}

// processes counts the processes in the first hierarchy of a job.
func (j *job) processes() (n int) {
	for _, dir := range j.directories("")[:1] {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() != "cgroup.procs" {
				return nil
			}
			text, _ := os.ReadFile(path) // the cgroup may just have been removed
			n += bytes.Count(text, []byte("\n"))
			return nil
		})
	}
	return n
}

// counterFiles returns what the tracker of a job reads: the cgroups of CPU time and memory, and the lists of
// processes.
func (j *job) counterFiles() (files []string) {
	for _, tree := range j.directories("") {
		_ = filepath.WalkDir(tree, func(dir string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || !d.IsDir():
			case strings.HasPrefix(dir, cgroupRoot+"/freezer/"):
				files = append(files, filepath.Join(dir, "cgroup.procs"))
			default:
				files = append(files, dir)
			}
			return nil
		})
	}
	return files
}

// directories returns a directory of a job in all hierarchies.
func (j *job) directories(below string) (dirs []string) {
	for _, tree := range nodeCgroups() {
		dirs = append(dirs, filepath.Join(tree, fmt.Sprintf("job_%d", j.id), below))
	}
	return dirs
}

const cgroupRoot = "/sys/fs/cgroup"

// nodeCgroups returns the parents of the jobs' cgroups, one in each hierarchy.
func nodeCgroups() (dirs []string) {
	if isV2() {
		return []string{cgroupRoot + "/system.slice/" + nodeName + "_slurmstepd.scope"}
	}
	for _, controller := range []string{"memory", "cpuacct", "freezer"} {
		dirs = append(dirs, cgroupRoot+"/"+controller+"/slurm_"+nodeName+"/uid_0")
	}
	return dirs
}

func isV2() bool {
	_, err := os.Stat(cgroupRoot + "/cgroup.controllers")
	return err == nil
}

// taskCgroups returns the cgroups of the only task of a step, one in each hierarchy.
func taskCgroups(id int, step string) (dirs []string) {
	task := "task_0"
	if isV2() {
		task = "user/task_0"
	}
	for _, dir := range nodeCgroups() {
		dirs = append(dirs, fmt.Sprintf("%s/job_%d/step_%s/%s", dir, id, step, task))
	}
	return dirs
}

// makeCgroups makes cgroups with their parents. With cgroup v2 a cgroup has the files of a controller only if its
// parent passes the controller on.
func makeCgroups(dirs []string) error {
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("no cgroup for a job: %w", err)
		}
		if !isV2() {
			continue
		}
		parent := cgroupRoot
		for name := range strings.SplitSeq(strings.TrimPrefix(dir, cgroupRoot+"/"), "/") {
			for _, controller := range []string{"+cpu", "+memory", "+pids"} {
				_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte(controller), 0) // the machine may have it not
			}
			parent = filepath.Join(parent, name)
		}
	}
	return nil
}

// removeTrees removes cgroups with all below them. Their processes may still end.
func removeTrees(trees []string) error {
	for end := time.Now().Add(deadline); ; time.Sleep(10 * time.Millisecond) {
		var busy error
		for _, tree := range trees {
			busy = errors.Join(busy, removeTree(tree))
		}
		if busy == nil || time.Now().After(end) {
			return busy
		}
	}
}

func removeTree(tree string) error {
	var dirs []string
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for _, dir := range slices.Backward(dirs) {
		err = errors.Join(err, os.Remove(dir))
	}
	return err
}

// removeCgroups removes the parents of the jobs' cgroups.
func removeCgroups() {
	for _, dir := range nodeCgroups() {
		_ = os.Remove(dir) // they are in use if a job could not be removed
		if !isV2() {
			_ = os.Remove(filepath.Dir(dir))
		}
	}
}
