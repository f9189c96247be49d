package layout

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/internal/procfile"
	"github.com/resource-tracker/rt/slurm"
)

// ErrNoStepd means that the node has no slurmstepd of the job.
var ErrNoStepd = errors.New("no slurmstepd of the job")

// StepdCgroup finds the job's cgroup by the slurmstepd of one of its steps, or by a process that
// this slurmstepd started. It reads all of procRoot, so it is for when no Candidate exists. The
// command line of a slurmstepd is "slurmstepd: [12.batch]", without its node. If several slurmds
// share a host, a path with another node's name is ignored. A path without a name is used, because
// such slurmds share their directories.
//
// The directories of the Candidate are literal. It fails with ErrNoStepd if there is no slurmstepd,
// which is normal before the job's first step.
func StepdCgroup(procRoot string, run *rt.Run, mounts cgroupfs.Mounts) (cgroupfs.Candidate, error) {
	id, ok := run.JobID.Get()
	if !ok {
		return cgroupfs.Candidate{}, ErrNoStepd
	}
	pids, err := numericNames(procRoot)
	if err != nil {
		return cgroupfs.Candidate{}, fmt.Errorf("cannot look for the job's slurmstepd: %w", err)
	}
	stepds := make(map[int]bool)
	for _, pid := range pids {
		if isJobsStepd(procRoot, pid, id, run.HetJobID) {
			stepds[pid] = true
		}
	}
	if len(stepds) == 0 {
		return cgroupfs.Candidate{}, ErrNoStepd
	}
	for _, pid := range pids {
		// In v1 the slurmstepd itself is in no cgroup of the job, its children are.
		stat, err := procfile.ReadStat(procRoot, pid)
		isOfStep := stepds[pid] || stepds[stat.PPID]
		if err != nil || !isOfStep {
			continue
		}
		text, err := os.ReadFile(filepath.Join(procRoot, strconv.Itoa(pid), "cgroup"))
		if err != nil {
			continue
		}
		if c, ok := jobDirs(text, id, run.Node, mounts); ok {
			return c, nil
		}
	}
	return cgroupfs.Candidate{}, ErrNoStepd
}

// isJobsStepd reports whether a process is a slurmstepd of the job.
func isJobsStepd(procRoot string, pid int, id uint64, leader rt.Opt[uint64]) bool {
	cmdline, err := os.ReadFile(filepath.Join(procRoot, strconv.Itoa(pid), "cmdline"))
	return err == nil && isStepdOf(cmdline, id, leader) && IsRoots(procRoot, pid)
}

// IsRoots reports whether root started the process: any process can have this title.
func IsRoots(procRoot string, pid int) bool {
	status, err := os.ReadFile(filepath.Join(procRoot, strconv.Itoa(pid), "status"))
	if err != nil {
		return false
	}
	_, ids, ok := bytes.Cut(status, []byte("\nUid:\t"))
	return ok && bytes.HasPrefix(ids, []byte("0\t"))
}

// isStepdOf reports whether a command line can belong to a slurmstepd of the job: "slurmstepd:
// [12.0]", "slurmstepd: [12.batch]". In a heterogeneous job it can have the leader's id, and the
// component after a plus sign ("12+1.0" or "12.0+1"). The directory has the component's id, which
// jobDirs checks.
func isStepdOf(cmdline []byte, id uint64, leader rt.Opt[uint64]) bool {
	rest, ok := bytes.CutPrefix(cmdline, []byte("slurmstepd: ["))
	if !ok {
		return false
	}
	title, _, ok := strings.Cut(string(rest), "]")
	if !ok {
		return false
	}
	job, _, _ := strings.Cut(title, ".")
	job, _, _ = strings.Cut(job, "+")
	if n, known := leader.Get(); known && strings.Contains(title, "+") && job == strconv.FormatUint(n, 10) {
		return true
	}
	return job == strconv.FormatUint(id, 10)
}

// jobDirs refuses the directories of another job and of another node's slurmd.
func jobDirs(text []byte, id uint64, node string, mounts cgroupfs.Mounts) (cgroupfs.Candidate, bool) {
	dirs := make(map[string]string)
	for rest := string(text); rest != ""; {
		var controllers, path string
		controllers, path, rest = CutEntry(rest)
		p, _ := Parse(path)
		isOthers := p.Node != "" && p.Node != node
		isJob := p.JobID == rt.Some(id) || slurm.IsSLUID(p.Name)
		if p.Step == "" || p.Job == "" || isOthers || !isJob {
			continue
		}
		dir := Escape(p.Job)
		if controllers == "" && mounts.V2 != "" {
			dirs = map[string]string{cgroupfs.Unified: filepath.Join(Escape(mounts.V2), dir)}
			return cgroupfs.Candidate{Layout: "slurmstepd", Version: 2, Dirs: dirs}, true
		}
		for controller := range strings.SplitSeq(controllers, ",") {
			if mount := mounts.V1[controller]; mount != "" {
				dirs[controller] = filepath.Join(Escape(mount), dir)
			}
		}
	}
	return cgroupfs.Candidate{Layout: "slurmstepd", Version: 1, Dirs: dirs}, len(dirs) > 0
}

// numericNames returns the numeric entries of a directory: of /proc the processes.
func numericNames(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// StepdSearch finds the slurmstepds of a run's job on this host repeatedly, one for each step. If
// several slurmds share the host, it also finds the slurmstepds of the other nodes. It reads the
// command line of another process a few times, because a slurmstepd begins under another name. It
// reads the line again after many searches, because pids are reused.
type StepdSearch struct {
	procRoot string
	run      *rt.Run

	searches int
	reads    map[int]int // searches that read the command line of a process in vain
	stepds   []int
}

const (
	maxReads      = 3   // of one process's command line
	searchesAgain = 100 // searches after which all command lines are read again
)

// NewStepdSearch returns a search below procRoot, "/proc".
func NewStepdSearch(procRoot string, run *rt.Run) *StepdSearch {
	return &StepdSearch{procRoot: procRoot, run: run}
}

// Among returns the job's slurmstepds among all processes of the host. The list is valid until the next call.
func (s *StepdSearch) Among(pids []int) []int {
	s.stepds = s.stepds[:0]
	id, ok := s.run.JobID.Get()
	if !ok {
		return nil
	}
	s.searches++
	before := s.reads
	if s.searches%searchesAgain == 0 {
		before = nil
	}
	s.reads = make(map[int]int, len(pids))
	for _, pid := range pids {
		s.reads[pid] = before[pid]
		switch {
		case s.reads[pid] >= maxReads:
		case isJobsStepd(s.procRoot, pid, id, s.run.HetJobID):
			s.stepds = append(s.stepds, pid)
		default:
			s.reads[pid]++
		}
	}
	return s.stepds
}
