package cgroup

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// Files that only some kernels and sites have: PSI, and the controllers pids, hugetlb, rdma.
func TestReadV2Controllers(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "system.slice/slurmstepd.scope/job_2")
	for name, text := range map[string]string{
		"cpu.pressure":              "some avg10=3.54 avg60=0.88 avg300=0.19 total=630180\nfull avg10=0.47 avg60=0.12 avg300=0.02 total=138490\n",
		"memory.pressure":           "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=6\n",
		"io.pressure":               "some avg10=0.19 avg60=0.05 avg300=0.01 total=53154\n",
		"pids.current":              "12\n",
		"hugetlb.2MB.current":       "4194304\n",
		"hugetlb.1GB.current":       "1073741824\n",
		"hugetlb.1GB.rsvd.current":  "9\n",
		"hugetlb.2MB.events":        "max 0\n",
		"rdma.current":              "mlx5_0 hca_handle=2 hca_object=2000\nmlx5_1 hca_handle=1 hca_object=5\n",
		"memory.peak":               "5000\n",
		"memory.swap.peak":          "8192\n",
		"step_0/user/cpu.stat":      "usage_usec 1\n",
		"step_0/user/cpu.pressure":  "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
		"step_0/user/pids.current":  "3\n",
		"step_0/user/memory.events": "oom_kill 0\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	j := manual(t, v2Candidate(root))
	same(t, read(t, j), rt.JobReading{
		Phase: rt.JobPresent, MemPeak: some(5000), SwapPeak: some(8192), Threads: some(3),
		CPUStallSome: some(630180), CPUStallFull: some(138490), MemStallSome: some(7), MemStallFull: some(6),
		IOStallSome: some(53154), HugeTLB: some(4194304 + 1073741824), RDMAHandles: some(3), RDMAObjects: some(2005),
	})
	if got := read(t, j); got.MemIntervalPeak.Valid() || got.MemPeak != some(5000) {
		t.Errorf("a file that is not the kernel's was written to: %+v", got)
	}
}

// A process that is killed for its memory is logged once, with its step and limit.
func TestOOMKillIsLogged(t *testing.T) {
	s := newShareJob(t)
	s.group("step_0/user", 10, 900, "")
	s.group("step_0/user/task_1", 10, 900, absentPIDs(1))
	kills := func(n string) {
		for _, dir := range []string{"", "step_0/user", "step_0/user/task_1"} {
			write(t, filepath.Join(s.dir, dir, "memory.events"), "low 0\nhigh 0\nmax 5\noom 1\noom_kill "+n+"\n")
		}
	}
	kills("0")
	write(t, filepath.Join(s.dir, "memory.max"), "4096\n")
	s.j.state.reopen()
	s.look()
	read(t, s.j)
	if n := s.j.Notes(); n != nil {
		t.Errorf("logged without a kill: %v", n)
	}
	kills("2")
	// as when the end of the process is reported first
	s.j.state.tasks.ReadEnding(s.dir, filepath.Join(s.dir, "step_0/user/task_1"), "0", false)
	s.j.state.memoryChanged(filepath.Join(s.dir, "memory.events"))
	read(t, s.j)
	notes := s.j.Notes()
	if len(notes) != 1 {
		t.Fatalf("notes %v", notes)
	}
	got := notes[0]
	const want = "killed=2 total=2 (2 in step 0, 2 in step 0 task 1) memory_limit_bytes=4096"
	if got.Kind != "job" || got.Name != "oom_kill" || !strings.HasPrefix(got.Detail, want) || got.Time.IsZero() {
		t.Errorf("note %+v, want %s", got, want)
	}
	kills("3")
	if read(t, s.j); len(s.j.Notes()) != 1 {
		t.Error("the next kill is not logged")
	}
}

// A job that lives at its limit is not read for each of its events.
func TestMemoryEventsAreBounded(t *testing.T) {
	s := newShareJob(t)
	name := filepath.Join(s.dir, "memory.events")
	write(t, name, "oom_kill 0\n")
	if err := s.j.state.watch.WatchFile(name); err != nil {
		t.Fatal(err)
	}
	for range 1000 + 1 {
		s.j.step([]notice{{WD: s.j.state.watch.byPath[name], Dir: name, Mask: unix.IN_MODIFY}})
	}
	if _, watched := s.j.state.watch.byPath[name]; watched {
		t.Error("the file is still watched")
	}
}

// The CPUs of the job are logged when they are set, and when they are set later.
func TestCPUSetIsLogged(t *testing.T) {
	root := t.TempDir()
	v1 := filepath.Join(root, "cpuset/slurm/uid_1000/job_12")
	write(t, filepath.Join(v1, "cpuset.cpus"), "\n")
	j1 := manual(t, v1Candidate(root, "cpuset"))
	v2 := filepath.Join(root, "system.slice/slurmstepd.scope/job_2")
	write(t, filepath.Join(v2, "cpuset.cpus.effective"), "0-63\n")
	write(t, filepath.Join(v2, "cpuset.mems.effective"), "0-1\n")
	j2 := manual(t, v2Candidate(root))
	var got []string
	look := func(j *Job) {
		read(t, j)
		for _, n := range j.Notes() {
			got = append(got, n.Name+" "+n.Detail)
		}
	}
	look(j1)
	write(t, filepath.Join(v1, "cpuset.cpus"), "0-3,8\n")
	write(t, filepath.Join(v1, "cpuset.mems"), "0\n")
	look(j1)
	look(j1)
	look(j2)
	write(t, filepath.Join(v2, "cpuset.cpus.effective"), "4-7\n")
	look(j2)
	if d := cmp.Diff([]string{"cpuset cpus=0-3,8 mems=0", "cpuset cpus=0-63 mems=0-1", "cpuset cpus=4-7 mems=0-1"}, got); d != "" {
		t.Errorf("notes (-want +got):\n%s", d)
	}
}
