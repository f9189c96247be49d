package perf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// loadVariable makes the test binary a job: it computes, touches pages and waits.
const loadVariable = "RT_PERF_LOAD"

func TestMain(m *testing.M) {
	if os.Getenv(loadVariable) != "" {
		load()
		return
	}
	os.Exit(m.Run())
}

func load() {
	const pages = 20_000
	memory, err := unix.Mmap(-1, 0, pages*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		panic(err)
	}
	_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE) // a kernel without huge pages has a fault for each page anyway
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	switchContexts(300)
	x := 1.0
	var used unix.Timespec // CPU time, however busy the machine is
	for used.Nano() < int64(400*time.Millisecond) {
		for range 1000 {
			x = math.Sqrt(x + 1)
		}
		if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &used); err != nil {
			panic(err)
		}
	}
	runtime.KeepAlive(x)
	var is unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &is); err != nil {
		panic(err)
	}
	fmt.Println(is.Utime.Nano()+is.Stime.Nano(), is.Minflt+is.Majflt, is.Nvcsw+is.Nivcsw)
}

// switchContexts has two threads wait for each other n times.
func switchContexts(n int) {
	var there, back [2]int
	if err := errors.Join(unix.Pipe(there[:]), unix.Pipe(back[:])); err != nil {
		panic(err)
	}
	go func() {
		for b := make([]byte, 1); ; {
			if got, _ := unix.Read(there[0], b); got == 1 {
				_, _ = unix.Write(back[1], b)
			}
		}
	}()
	for b := make([]byte, 1); n > 0; n-- {
		_, _ = unix.Write(there[1], b)
		for got := 0; got != 1; {
			got, _ = unix.Read(back[0], b)
		}
	}
}

// newCgroup makes one that counters know.
func newCgroup(t testing.TB) string {
	t.Helper()
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		dir := filepath.Join(mount, "rt-perf-"+strconv.Itoa(os.Getpid()))
		if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err != nil || os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Error(err)
			}
		})
		if err := mayCount(dir); err != nil {
			t.Skipf("the events of a cgroup cannot be counted here: %v", err)
		}
		return dir
	}
	t.Skip("only root can make a cgroup and count its events")
	return ""
}

// mayCount opens a counter as this package does. Without CAP_PERFMON, for example in a container, it is denied.
func mayCount(cgroup string) error {
	dir, err := os.Open(cgroup)
	if err != nil {
		return err
	}
	defer dir.Close()
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
	counter, err := unix.PerfEventOpen(&attr, int(dir.Fd()), 0, -1, unix.PERF_FLAG_PID_CGROUP|unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(counter)
}

func (s *Source) readAt(t *testing.T, boot time.Duration, phase rt.JobPhase) (rt.Snapshot, error) {
	t.Helper()
	snap := rt.Snapshot{Boot: int64(boot), Wall: 1}
	snap.Job.Phase = phase
	err := s.Read(&snap)
	return snap, err
}

func sum(snap *rt.Snapshot, event string) (total, n uint64) {
	for i := range snap.Perf {
		if p := &snap.Perf[i]; p.Event == event && p.Value.Valid() {
			total += p.Value.Or(0)
			n++
		}
	}
	return total, n
}

// within holds that a count is the truth to 1 %. The truth lies between the kernel's
// figures after the load and after the process: kernels differ in what they count of a
// process's end.
func within(t *testing.T, what string, got, before, after float64) {
	t.Helper()
	if got < 0.99*before || got > 1.01*after {
		t.Errorf("%s: counted %.0f, the kernel's account says %.0f to %.0f", what, got, before, after)
	}
}

// timeAway returns the nanoseconds that interrupts and the host of a virtual machine took from all CPUs so far: irq,
// softirq and steal of /proc/stat, see proc_stat(5).
func timeAway(t *testing.T) (sum int64) {
	t.Helper()
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	for _, field := range strings.Fields(line)[6:9] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatalf("/proc/stat begins with %q: %v", line, err)
		}
		sum += ticks * int64(10*time.Millisecond)
	}
	return sum
}

// What a known load used, as getrusage(2) accounts it, is what was counted of its cgroup.
func TestSoftwareEventsAreTheTruth(t *testing.T) {
	dir := newCgroup(t)
	s := New(Options{Sys: "/sys", Core: "task-clock,page-faults,context-switches", Cgroup: func() (string, bool) { return dir, true }})
	defer s.Close()
	if _, err := s.readAt(t, time.Hour, rt.JobPresent); err != nil {
		t.Fatal(err)
	}
	into, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), loadVariable+"=1", "GOMAXPROCS=2")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(into.Fd())}
	awayBefore := timeAway(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var usedTime, usedFaults, usedSwitches float64
	if _, err := fmt.Sscan(string(out), &usedTime, &usedFaults, &usedSwitches); err != nil {
		t.Fatalf("the load printed %q: %v", out, err)
	}
	snap, err := s.readAt(t, time.Hour+time.Second, rt.JobPresent)
	if err != nil {
		t.Fatal(err)
	}
	clock, n := sum(&snap, "task-clock")
	faults, _ := sum(&snap, "page-faults")
	switches, _ := sum(&snap, "context-switches")
	if want := uint64(runtime.NumCPU()); n != want {
		t.Errorf("%d CPUs have a value, of %d", n, want)
	}
	end := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	// ns: the kernel counts its work between two processes as one's or as neither's. A busy
	// machine switches thousands of times in the load's second.
	switching := 20e3 * usedSwitches
	// Of the time on a CPU, a process's account leaves out what interrupts and other guests of the host took.
	away := float64(timeAway(t) - awayBefore)
	within(t, "task-clock in ns", float64(clock), usedTime-switching, float64(end.Utime.Nano()+end.Stime.Nano())+switching+away)
	within(t, "page-faults", float64(faults), usedFaults, float64(end.Minflt+end.Majflt))
	within(t, "context-switches", float64(switches), usedSwitches, float64(end.Nvcsw+end.Nivcsw))
	for i := range snap.Perf {
		if p := &snap.Perf[i]; p.Group != GroupCore || p.TimeRunning != p.TimeEnabled || !p.TimeEnabled.Valid() {
			t.Errorf("%+v", p)
		}
	}
}

// Where a machine has no such hardware counter software events are counted, and the
// ledger says which could not be.
func TestNoHardware(t *testing.T) {
	dir := newCgroup(t)
	const none = "nothing=r0,task-clock" // and where there is one the PMU that does not exist
	s := New(Options{Sys: "/sys", Core: none + ",uncore_rt/nothing/", Cgroup: func() (string, bool) { return dir, true }})
	defer s.Close()
	snap, err := s.readAt(t, time.Hour, rt.JobPresent)
	if err != nil {
		t.Fatal(err)
	}
	if want := len(substitutes) * runtime.NumCPU(); len(snap.Perf) != want {
		t.Errorf("%d readings, want %d", len(snap.Perf), want)
	}
	notes := s.Notes()
	if len(notes) != 1 || notes[0].Status != NotSupported || len(s.Notes()) != 0 {
		t.Errorf("%+v", notes)
	}
	if len(notes) > 0 && notes[0].Time.UnixNano() <= snap.Wall {
		t.Errorf("the note has the time %s of the run; the recorder expects that of the wall clock", notes[0].Time)
	}
}

// The node's events are counted in addition to the job's; without them the job's counters
// continue.
func TestWholeNode(t *testing.T) {
	dir := newCgroup(t)
	s := New(Options{Sys: "/sys", Core: "page-faults", Node: "page-faults", Cgroup: func() (string, bool) { return dir, true }})
	defer s.Close()
	if _, err := s.readAt(t, time.Hour, rt.JobPresent); err != nil {
		t.Fatal(err)
	}
	memory, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE) // a kernel without huge pages has a fault for each page anyway
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	snap, err := s.readAt(t, time.Hour+time.Second, rt.JobPresent)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]uint64{}
	for i := range snap.Perf {
		count[snap.Perf[i].Group] += snap.Perf[i].Value.Or(0)
	}
	if count[GroupCore] != 0 || count[GroupNode] < 256 || len(snap.Perf) != 2*runtime.NumCPU() {
		t.Errorf("the job, which has no process, has %d faults and the node %d", count[GroupCore], count[GroupNode])
	}
	lame := New(Options{Sys: "/sys", Core: "page-faults", Node: "uncore_rt/nothing/", Cgroup: func() (string, bool) { return dir, true }})
	defer lame.Close()
	if snap, err = lame.readAt(t, time.Hour, rt.JobPresent); err != nil || len(snap.Perf) != runtime.NumCPU() {
		t.Errorf("%v, %d readings", err, len(snap.Perf))
	}
	if notes := lame.Notes(); len(notes) != 1 || notes[0].Status != NotSupported {
		t.Errorf("%+v", notes)
	}
}

func TestStatuses(t *testing.T) {
	var status *StatusError
	s := New(Options{Sys: tree(t), RAPL: "energy-pkg", MSR: "tsc,nonsense"})
	if _, err := s.readAt(t, time.Hour, rt.JobNone); !errors.As(err, &status) {
		t.Errorf("PMUs that this machine cannot have: %v", err)
	}
	s = New(Options{Sys: "/sys", Core: "task-clock", Cgroup: func() (string, bool) { return t.TempDir(), true }})
	if _, err := s.readAt(t, time.Hour, rt.JobPresent); !errors.As(err, &status) {
		t.Errorf("a directory that is no cgroup: %v", err)
	}
	asked := 0
	s = New(Options{Sys: "/sys", Core: "task-clock", Cgroup: func() (string, bool) { asked++; return "", false }})
	if snap, err := s.readAt(t, time.Hour, rt.JobPending); err != nil || len(snap.Perf) != 0 || asked != 1 {
		t.Errorf("a job that is not there yet: %v, %d", err, asked)
	}
}

// Our events were on the counters for half the time: the source pauses and continues
// later.
func TestPause(t *testing.T) {
	dir := newCgroup(t)
	s := New(Options{Sys: "/sys", Core: "task-clock", Cgroup: func() (string, bool) { return dir, true }})
	defer s.Close()
	if _, err := s.readAt(t, time.Hour, rt.JobPresent); err != nil {
		t.Fatal(err)
	}
	for i := range s.job {
		s.job[i].hardware = true // as if
	}
	snap := rt.Snapshot{Boot: int64(time.Hour)}
	var status *StatusError
	if err := s.pause(&snap, 100, 50); !errors.As(err, &status) || status.Word != Busy {
		t.Fatalf("%v", err)
	}
	for _, after := range []time.Duration{time.Second, pauseTime - 1, pauseTime} {
		snap, err := s.readAt(t, time.Hour+after, rt.JobPresent)
		if !errors.As(err, &status) || status.Word != Busy || len(snap.Perf) != runtime.NumCPU() || snap.Perf[0].Value.Valid() {
			t.Errorf("%s later: %v, %+v", after, err, snap.Perf)
		}
	}
	if snap, err := s.readAt(t, time.Hour+pauseTime+time.Second, rt.JobPresent); err != nil || !snap.Perf[0].Value.Valid() {
		t.Errorf("afterwards: %v, %+v", err, snap.Perf)
	}
}

// alternating is a hardware group of CPU 0 with the times of each reading: enabled and on
// the counters so far.
func alternating(t *testing.T, name string, times ...[2]uint64) group {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(r.Close(), w.Close()); err != nil {
			t.Error(err)
		}
	})
	for i, at := range times {
		var b []byte
		for _, word := range []uint64{1, at[0], at[1], uint64(i) * 1000} {
			b = binary.NativeEndian.AppendUint64(b, word)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	return group{fds: []int{int(r.Fd())}, hardware: true, buf: make([]byte, 32), readings: []rt.PerfReading{{Group: name, Event: "cycles"}}}
}

// Our groups that alternate are on the counters all the time together; a group that was
// not has lost them to another process.
func TestAnotherProcessCounts(t *testing.T) {
	for _, tt := range []struct {
		what   string
		groups []group
		alone  bool
	}{
		{"alone", []group{alternating(t, GroupCore, [2]uint64{100, 100}, [2]uint64{200, 199})}, true},
		{"two groups in turns", []group{
			alternating(t, GroupCore, [2]uint64{100, 50}, [2]uint64{200, 101}), alternating(t, GroupCore, [2]uint64{100, 50}, [2]uint64{200, 99})}, true},
		{"and a profiler", []group{alternating(t, GroupCore, [2]uint64{100, 100}, [2]uint64{200, 160})}, false},
		{"a profiler and two groups", []group{
			alternating(t, GroupCore, [2]uint64{100, 50}, [2]uint64{200, 83}), alternating(t, GroupCore, [2]uint64{100, 50}, [2]uint64{200, 83})}, false},
		{"a profiler on the node's", []group{
			alternating(t, GroupCore, [2]uint64{100, 100}, [2]uint64{200, 200}), alternating(t, GroupNode, [2]uint64{100, 100}, [2]uint64{200, 150})}, false},
	} {
		s := New(Options{})
		s.opened, s.job = true, tt.groups
		if _, err := s.readAt(t, time.Hour, rt.JobPresent); err != nil || s.paused != 0 {
			t.Errorf("%s, at first: %v", tt.what, err)
		}
		snap, err := s.readAt(t, time.Hour+time.Second, rt.JobPresent)
		if stood := s.paused != 0; stood == tt.alone || (err == nil) != tt.alone { // a pipe cannot stop counting
			t.Errorf("%s: paused %v, %v", tt.what, stood, err)
		}
		if v := snap.Perf[0].Value; v != rt.Some[uint64](1000) {
			t.Errorf("%s: what was counted so far is %v", tt.what, v)
		}
	}
}

// If the events of the job and of the node exceed a CPU's counters, the node's are given
// up, and the job's go on. Only a later shortage pauses them.
func TestOursAreTooMany(t *testing.T) {
	core := alternating(t, GroupCore, [2]uint64{100, 60}, [2]uint64{200, 160}, [2]uint64{300, 210})
	node := alternating(t, GroupNode, [2]uint64{100_000, 99_960})
	var err error
	if node.fds[0], err = unix.Dup(node.fds[0]); err != nil { // it is closed
		t.Fatal(err)
	}
	s := New(Options{})
	s.opened, s.job = true, []group{core, node}
	snap, err := s.readAt(t, time.Hour, rt.JobPresent)
	if notes := s.Notes(); err != nil || s.paused != 0 || len(snap.Perf) != 2 || len(notes) != 1 || notes[0].Status != Busy {
		t.Errorf("at first: %v, paused %v, %d readings, %+v", err, s.paused != 0, len(snap.Perf), notes)
	}
	if snap, err = s.readAt(t, time.Hour+time.Second, rt.JobPresent); err != nil || s.paused != 0 || len(snap.Perf) != 1 || len(s.Notes()) != 0 {
		t.Errorf("the job's alone: %v, %+v", err, snap.Perf)
	}
	if _, err = s.readAt(t, time.Hour+2*time.Second, rt.JobPresent); err == nil || s.paused == 0 {
		t.Errorf("a profiler and the job's: %v", err)
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	dir := newCgroup(t)
	s := New(Options{Sys: "/sys", Core: "task-clock,page-faults", Cgroup: func() (string, bool) { return dir, true }})
	defer s.Close()
	snap := rt.Snapshot{Boot: int64(time.Hour)}
	if err := s.Read(&snap); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := s.Read(&snap); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%g allocations for each reading", n)
	}
}

// BenchmarkRead reads three software events of a cgroup on each CPU.
func BenchmarkRead(b *testing.B) {
	dir := newCgroup(b)
	s := New(Options{Sys: "/sys", Core: "task-clock,page-faults,context-switches", Cgroup: func() (string, bool) { return dir, true }})
	defer s.Close()
	snap := rt.Snapshot{Boot: int64(time.Hour)}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Read(&snap); err != nil {
			b.Fatal(err)
		}
	}
}
