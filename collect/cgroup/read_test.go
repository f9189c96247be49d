package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/slurm/layout"
)

// unpack writes a fixture's files below root.
func unpack(tb testing.TB, fixture, root string) {
	tb.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", fixture))
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range a.Files {
		write(tb, filepath.Join(root, f.Name), string(f.Data))
	}
}

func write(tb testing.TB, name, text string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
}

// v1Candidate is Slurm's v1 layout below root, with controllers that it uses and some that it does not.
func v1Candidate(root string, controllers ...string) cgroupfs.Candidate {
	c := cgroupfs.Candidate{Layout: "slurm-v1", Version: 1, Dirs: map[string]string{}}
	for _, name := range controllers {
		c.Dirs[name] = filepath.Join(root, name, "slurm/uid_1000/job_12")
	}
	return c
}

func v2Candidate(root string) cgroupfs.Candidate {
	return cgroupfs.Candidate{Layout: "slurm-v2", Version: 2, Dirs: map[string]string{
		cgroupfs.Unified: filepath.Join(root, "system.slice/*slurmstepd.scope/job_2"),
	}}
}

// fixtureJob is a job that exists, without the watcher's goroutine.
func fixtureJob(tb testing.TB, version int) *Job {
	tb.Helper()
	root := tb.TempDir()
	c := v1Candidate(root, cgroupfs.ControllersV1[:]...)
	if version == 2 {
		unpack(tb, "v2-job.txtar", filepath.Join(root, "system.slice/n1_slurmstepd.scope/job_2"))
		c = v2Candidate(root)
	} else {
		unpack(tb, "v1-job.txtar", root)
	}
	return manual(tb, c)
}

// manual is a watched job without a goroutine: the test calls its steps.
func manual(tb testing.TB, c ...cgroupfs.Candidate) *Job {
	tb.Helper()
	return manualWith(tb, Options{ProcRoot: tb.TempDir()}, c...)
}

func manualWith(tb testing.TB, opts Options, c ...cgroupfs.Candidate) *Job {
	tb.Helper()
	j, err := newJob(c, layout.Slurm{}, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		close(j.ended)
		if err := j.Close(); err != nil {
			tb.Error(err)
		}
	})
	j.step(nil)
	return j
}

func some(v uint64) rt.Opt[uint64] { return rt.Some(v) }

// same fails if two readings differ.
func same(t *testing.T, got, want rt.JobReading) {
	t.Helper()
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b rt.Opt[uint64]) bool { return a == b }), cmpopts.IgnoreUnexported(rt.JobReading{})); d != "" {
		t.Errorf("reading differs (-want +got):\n%s", d)
	}
}

func read(tb testing.TB, j *Job) rt.JobReading {
	tb.Helper()
	var s rt.Snapshot
	if err := j.Read(&s); err != nil {
		tb.Fatal(err)
	}
	return s.Job
}

func TestReadV2(t *testing.T) {
	j := fixtureJob(t, 2)
	same(t, read(t, j), rt.JobReading{
		Phase:    rt.JobPresent,
		CPUUsage: some(6399000), CPUUser: some(3262000), CPUSystem: some(3137000), CPUThrottled: some(0),
		StepdCPUUsage: some(260800),
		MemCurrent:    some(1949696), MemPeak: some(62935040), MemLimit: some(209715200), Swap: some(0),
		Anon: some(806912), File: some(520192), Shmem: some(0), Kernel: some(491520), SlabReclaimable: some(64144),
		Active: some(12288 + 229376), Inactive: some(778240 + 290816),
		PageFaults: some(19473), MajorFaults: some(6),
		EventsHigh: some(0), EventsMax: some(0), EventsOOM: some(0), EventsOOMKill: some(0),
		Pids:      some(3), // without the slurmstepds
		Suspended: some(0),
	})
	if got := j.Procs(nil); !slices.Equal(got, []int{329, 435, 319}) {
		t.Errorf("Procs = %v", got)
	}
	layout, path, ok := j.Found()
	if layout != "slurm-v2" || !strings.HasSuffix(path, "/n1_slurmstepd.scope/job_2") || !ok {
		t.Errorf("Found = %s, %s, %t", layout, path, ok)
	}
	if err := j.Err(); err != nil {
		t.Error(err)
	}
}

func TestReadV1(t *testing.T) {
	j := fixtureJob(t, 1)
	same(t, read(t, j), rt.JobReading{
		Phase:    rt.JobPresent,
		CPUUsage: some(3348302), CPUUser: some(3260908), CPUSystem: some(87394), CPUThrottled: some(1119649),
		MemCurrent: some(50700288), MemPeak: some(51888128), MemLimit: some(67108864), Swap: some(0),
		Anon: some(28446720), File: some(21323776), Shmem: some(0),
		Active: some(20480 + 49152), Inactive: some(28323840 + 21274624),
		PageFaults: some(20231), MajorFaults: some(8),
		EventsMax: some(1261), EventsOOMKill: some(1), // of step_0 and its task: the job's own say 0
		Pids: some(5), Threads: some(5), IOReadBytes: some(0), IOWriteBytes: some(0),
	})
	if got := j.Procs([]int{1}); !slices.Equal(got, []int{1, 313, 316, 319, 312, 311}) {
		t.Errorf("Procs = %v", got)
	}
	if _, path, _ := j.Found(); !strings.HasSuffix(path, "/cpuacct/slurm/uid_1000/job_12") {
		t.Errorf("found at %s", path)
	}
}

// A kernel older than 4.6 has only cpuacct.stat. Without the memory controller the figures
// of the memory are absent, not zero.
func TestReadMissingFiles(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "cpuacct/slurm/uid_1000/job_12")
	write(t, filepath.Join(dir, "cpuacct.usage"), "5000000\n")
	write(t, filepath.Join(dir, "cpuacct.stat"), "user 3\nsystem 2\n")
	j := manual(t, v1Candidate(root, "cpuacct"))
	same(t, read(t, j), rt.JobReading{
		Phase: rt.JobPresent, CPUUsage: some(5000), CPUUser: some(3000), CPUSystem: some(2000),
	})
}

// A limit that is not set, a file longer than the buffer, and io.stat where the
// site enabled it.
func TestReadV2Extras(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "system.slice/slurmstepd.scope/job_2")
	write(t, filepath.Join(dir, "memory.max"), "max\n")
	write(t, filepath.Join(dir, "memory.stat"), strings.Repeat("filler 1\n", 5000)+"anon 7\n")
	write(t, filepath.Join(dir, "io.stat"), "8:0 rbytes=4096 wbytes=8192\n")
	pids := strings.Builder{}
	for range 9000 {
		pids.WriteString("5000000\n")
	}
	write(t, filepath.Join(dir, "cgroup.procs"), pids.String())
	j := manual(t, v2Candidate(root))
	same(t, read(t, j), rt.JobReading{
		Phase: rt.JobPresent, MemLimit: some(rt.Unlimited), Anon: some(7),
		IOReadBytes: some(4096), IOWriteBytes: some(8192), Pids: some(9000),
	})
}

// A file that appears later, because its controller was enabled after the
// directory was made, is found by the next readings.
func TestReadLateFile(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "system.slice/slurmstepd.scope/job_2")
	write(t, filepath.Join(dir, "cpu.stat"), "usage_usec 1\n")
	j := manual(t, v2Candidate(root))
	write(t, filepath.Join(dir, "memory.peak"), "4096\n")
	if got := read(t, j); got.MemPeak != some(4096) || got.CPUUsage != some(1) {
		t.Errorf("peak %v, usage %v", got.MemPeak, got.CPUUsage)
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	for version := 1; version <= 2; version++ {
		j := fixtureJob(t, version)
		checkAllocs(t, j)
	}
}

func checkAllocs(t *testing.T, j *Job) {
	t.Helper()
	var s rt.Snapshot
	for range 10 { // the first ones still look for missing files
		if err := j.Read(&s); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, func() { s.Steps = s.Steps[:0]; _ = j.Read(&s) }); n != 0 {
		t.Errorf("a reading allocates %v times", n)
	}
	if len(s.Steps) == 0 {
		t.Error("no step was read")
	}
	if s.Job.Phase != rt.JobPresent || !s.Job.CPUUsage.Valid() {
		t.Errorf("the reading was of nothing: %+v", s.Job)
	}
}

func benchmarkRead(b *testing.B, version int) {
	j := fixtureJob(b, version)
	for _, root := range j.state.watch.Roots() { // processes that exist, like the processes of a job
		for _, dir := range j.state.watch.Below(root) {
			if strings.HasPrefix(filepath.Base(dir), "task_") {
				write(b, filepath.Join(dir, "cgroup.procs"), strconv.Itoa(os.Getpid())+"\n")
			}
		}
	}
	var s rt.Snapshot
	for range 10 {
		_ = j.Read(&s)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Steps = s.Steps[:0]
		if err := j.Read(&s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadV1(b *testing.B) { benchmarkRead(b, 1) }
func BenchmarkReadV2(b *testing.B) { benchmarkRead(b, 2) }

// Err returns why a part of the cgroup could not be opened or watched, nil if all could.
func (j *Job) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.err
}

// The figures of an idle step stay.
func TestIdleStep(t *testing.T) {
	for _, version := range []int{1, 2} {
		j := fixtureJob(t, version)
		var first, second rt.Snapshot
		for _, s := range []*rt.Snapshot{&first, &second} {
			if err := j.Read(s); err != nil {
				t.Fatal(err)
			}
		}
		if len(first.Steps) == 0 {
			t.Errorf("v%d: no steps", version)
		}
		if diff := cmp.Diff(first.Steps, second.Steps, cmpopts.EquateComparable(rt.Opt[uint64]{})); diff != "" {
			t.Errorf("v%d, the second reading of idle steps: %s", version, diff)
		}
	}
}
