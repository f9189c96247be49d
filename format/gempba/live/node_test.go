package live

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/format/gempba"
)

func TestPrimarySocket(t *testing.T) {
	n := &Node{packages: []host.Package{{ID: 0}, {ID: 1}}, packageOf: map[int]int{0: 0, 1: 0, 2: 1, 3: 1, 4: 0}}
	for _, c := range []struct {
		cpus []uint32
		want rt.Opt[int64]
	}{
		{[]uint32{0, 2, 3}, rt.Some[int64](1)}, {[]uint32{0, 2}, rt.Some[int64](0)}, {[]uint32{2, 0}, rt.Some[int64](0)},
		{[]uint32{99}, rt.None[int64]()}, {nil, rt.None[int64]()},
	} {
		if got := n.primarySocket(c.cpus); got != c.want {
			t.Errorf("most of %v is on socket %v, want %v", c.cpus, got, c.want)
		}
	}
}

func TestMachineThatShowsNothing(t *testing.T) {
	var warned []error
	n := NewNode(NodeOptions{Procfs: t.TempDir(), Sysfs: t.TempDir(), Groups: func() ([]Group, error) { return nil, nil }, Warn: func(err error) { warned = append(warned, err) }})
	f := n.Nodes(time.Now())[0]
	if f.SocketCount.Valid() || f.LogicalCores.Valid() || f.MemTotalBytes.Valid() || f.Net.BytesIn.Valid() {
		t.Errorf("what was not read is there: %+v", f)
	}
	n.Nodes(time.Now())
	if len(warned) != 6 {
		t.Errorf("warned %v", warned)
	}
}

// The figures of a worker are the kernel's.
func TestWorkers(t *testing.T) {
	cmd := exec.Command("cat")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	_, err1 = in.Write([]byte("x"))
	_, err2 = out.Read(make([]byte, 1)) // it runs, and is no longer us
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	self, other := os.Getpid(), cmd.Process.Pid
	groups := []Group{{Key: "self", PIDs: []int{self}}, {Key: "task", PIDs: []int{other, 1 << 30}}, {Key: "gone", PIDs: []int{1 << 30}}}
	n := NewNode(NodeOptions{Hostname: "n1", Procfs: "/proc", Sysfs: "/sys", Groups: func() ([]Group, error) { return groups, nil }, Warn: func(err error) { t.Error(err) }})
	defer n.Close()

	now := time.Now()
	first := n.Workers(now)
	if len(first) != 2 || first[0].WorkerID != 0 || first[1].WorkerID != 1 || first[0].ProcessCPUPct.Valid() {
		t.Fatalf("the first look: %+v", first)
	}
	if threads, resident, err := proc.ReadUse("/proc", other); err != nil || threads != 1 || first[1].ProcessThreads != rt.Some(threads) || first[1].ProcessRSSBytes != rt.Some(resident) || resident == 0 {
		t.Errorf("cat is %+v, its threads are %d, its memory %d, %v", first[1], threads, resident, err)
	}
	before := n.workers[0].clocks[self]
	for began := time.Now(); time.Since(began) < shortest; { // use some CPU time
	}
	now = now.Add(time.Second)
	second := n.Workers(now)
	used := n.workers[0].clocks[self] - before
	if got := second[0].ProcessCPUPct.Or(-1); used <= 0 || got != float64(used)/float64(time.Second)*100 || second[0].SeqNo != rt.Some[uint64](2) {
		t.Errorf("%s of CPU time in a second are %v %%", used, got)
	}
	if got := n.Workers(now.Add(time.Millisecond))[0].ProcessCPUPct; got != second[0].ProcessCPUPct {
		t.Errorf("after a millisecond it is %v", got)
	}
	topology(t, n, self)

	n.Promote(1)
	n.Promote(77)
	if f := n.Nodes(now)[0]; f.SentinelWorkerID != 1 {
		t.Errorf("the sentinel is %d", f.SentinelWorkerID)
	}
	groups = append(groups[:1], Group{Key: "new", PIDs: []int{other}})
	third := n.Workers(now.Add(2 * time.Second))
	if len(third) != 2 || third[1].WorkerID == 1 || third[1].ProcessCPUPct.Valid() {
		t.Errorf("a new worker is taken for one that has ended: %+v", third)
	}
}

func topology(t *testing.T, n *Node, self int) {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(self, &set); err != nil {
		t.Fatal(err)
	}
	top := n.Topology()
	if id := top.Identities[0]; id.PID != rt.Some(int64(self)) || id.Hostname != "n1" || len(id.AllowedCPUs) != set.Count() {
		t.Errorf("the first worker is %+v, it may use %d CPUs", id, set.Count())
	}
	if node := top.Nodes[0]; !cmp.Equal(node.WorkerIDs, []uint32{0, 1}) || node.SentinelWorkerID != 0 {
		t.Errorf("the node is %+v", node)
	}
}

func TestWorkersBeyondTheLimit(t *testing.T) {
	var groups []Group
	for i := range gempba.MaxWorkers + 1 {
		groups = append(groups, Group{Key: string(rune('a' + i)), PIDs: []int{os.Getpid()}})
	}
	warned := 0
	n := NewNode(NodeOptions{Procfs: "/proc", Sysfs: "/sys", Groups: func() ([]Group, error) { return groups, nil }, Warn: func(error) { warned++ }})
	defer n.Close()
	now := time.Now()
	for i := range 2 {
		if got := len(n.Workers(now.Add(time.Duration(i) * time.Second))); got != gempba.MaxWorkers || warned != 1 {
			t.Errorf("%d workers, %d warnings", got, warned)
		}
	}
	groups = append(groups[1:5:5], Group{Key: "later", PIDs: []int{os.Getpid()}})
	if got := n.Workers(now.Add(time.Minute)); got[0].WorkerID != 1 && got[0].WorkerID != 0 || len(got) != 5 {
		t.Errorf("ids of workers that ended are not used again: %+v", got)
	}
}

func TestTaskOf(t *testing.T) {
	for text, want := range map[string]taskKey{
		"0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_3\n":                                                               {"0", 3},
		"0::/system.slice/slurmstepd.scope/job_12/step_batch/user/task_0/mine/task_7\n":                                               {"batch", 0},
		"0::/system.slice/slurmstepd.scope/job_12/step_extern/user/task_special\n":                                                    {"extern", -1},
		"4:memory:/slurm/uid_0/job_1/step_2\n3:cpuacct:/slurm/uid_0/job_1/step_2/task_1\n1:name=systemd:/\n0::/\n":                    {"2", 1},
		"4:memory:/slurm/uid_0/job_1/step_2/task_1\n3:cpuset:/slurm/uid_0/job_1/step_2\n2:cpuacct:/slurm/uid_0/job_1/step_2/task_5\n": {"2", 1}, // of the second of two nodes
		"4:cpuacct:/slurm/uid_0/job_1/step_2/task_5\n2:memory:/slurm/uid_0/job_1/step_2/task_1\n":                                     {"2", 1},
		"0::/user.slice\n": {"", -1},
		"":                 {"", -1},
	} {
		if got := parseTask(text); got != want {
			t.Errorf("%q is of %+v, want %+v", text, got, want)
		}
	}
	if compareTasks(taskKey{"9", 1}, taskKey{"10", 0}) >= 0 || compareTasks(taskKey{"batch", 0}, taskKey{"0", 5}) <= 0 || compareTasks(taskKey{"0", 2}, taskKey{"0", 10}) >= 0 {
		t.Error("tasks are not in their order")
	}
}

func TestWorkersOf(t *testing.T) {
	ranks := map[taskKey]bool{{"batch", 0}: true, {"0", 1}: true, {"0", 0}: true, {"extern", -1}: true, {"0", -1}: true}
	if got := workersOf(ranks); !slices.Equal(got, []taskKey{{"0", 0}, {"0", 1}}) {
		t.Errorf("of ranks and a batch script: %v", got)
	}
	if got := workersOf(map[taskKey]bool{{"batch", 0}: true, {"", -1}: true}); len(got) != 2 {
		t.Errorf("of a batch script alone: %v", got)
	}
}

// TestTasksBegin: a child of slurmstepd is in other directories before it executes its
// task's program; it belongs to its task only. A program that only watches is no worker.
func TestTasksBegin(t *testing.T) {
	procfs := t.TempDir()
	is := func(pid int, name, memory, cpuacct string) {
		t.Helper()
		dir := filepath.Join(procfs, strconv.Itoa(pid))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		const job = "/slurm_n2/uid_1000/job_1/"
		for file, text := range map[string]string{"comm": name + "\n", "cgroup": "4:memory:" + job + memory + "\n2:cpuacct:" + job + cpuacct + "\n"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	tasks := &Tasks{procfs: procfs, self: "rt-spool"}
	look := func(want map[taskKey][]int, workers ...taskKey) {
		t.Helper()
		tasks.pids = []int{10, 11, 12, 20, 21, 30}
		byKey, others := tasks.sortByTask()
		if diff := cmp.Diff(want, byKey); diff != "" || !slices.Equal(workersOf(others), workers) {
			t.Errorf("workers %v, want %v; tasks:\n%s", workersOf(others), workers, diff)
		}
	}
	is(10, "slurmstepd", "step_0/task_4", "step_0")        // memory's first directory is by the number in the step
	is(11, "slurmstepd", "step_0/task_1", "step_0/task_5") // it has arrived
	is(20, "rt-spool", "step_1/task_0", "step_1/task_0")
	is(21, "rt-spool", "step_2/task_0", "step_2/task_0") // of another user
	look(map[taskKey][]int{{"1", 0}: {20}, {"2", 0}: {21}})
	is(10, "program", "step_0/task_0", "step_0/task_4")
	is(11, "program", "step_0/task_1", "step_0/task_5")
	is(12, "child", "step_0/task_0", "step_0/task_4")
	is(30, "rt-spool", "step_3/task_0", "step_3/task_0") // about to begin a program of its own
	look(map[taskKey][]int{{"0", 0}: {10, 12}, {"0", 1}: {11}, {"1", 0}: {20}, {"2", 0}: {21}, {"3", 0}: {30}}, taskKey{"0", 0}, taskKey{"0", 1})
	is(30, "another", "step_3/task_0", "step_3/task_0")
	look(map[taskKey][]int{{"0", 0}: {10, 12}, {"0", 1}: {11}, {"1", 0}: {20}, {"2", 0}: {21}, {"3", 0}: {30}}, taskKey{"0", 0}, taskKey{"0", 1}, taskKey{"3", 0})
}
