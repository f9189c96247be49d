package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/gpu"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/format/sonar"
	sonarconv "github.com/resource-tracker/rt/internal/convert/sonar"
)

// TestSonarPsLoad runs a known load, stops it so that its figures stay as they are, and
// compares the record of sonar ps with /proc and ps(1), within 2 %.
func TestSonarPsLoad(t *testing.T) {
	const job, memory = 4711, 48 << 20
	child := exec.Command(program(t))
	child.Env = append(os.Environ(), loadVariable+"=1", "SLURM_JOB_ID="+strconv.Itoa(job))
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill() // it never ends by itself
		_ = child.Wait()
	})
	pid := child.Process.Pid
	for deadline := time.Now().Add(time.Minute); ticksOf(t, pid) < 150; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d has used %d ticks in a minute", pid, ticksOf(t, pid))
		}
	}
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for procState(t, pid) != "T" {
		time.Sleep(time.Millisecond)
	}
	for _, rollup := range []bool{false, true} {
		most := shareOf(t, pid) // it falls while the process stands still
		args := []string{"rt-spool", "sonar", "ps", "--json", "--min-cpu-time", "1"}
		if rollup {
			args = append(args, "--rollup")
		}
		var out, errs bytes.Buffer
		if status := run(context.Background(), args, &out, &errs); status != 0 {
			t.Fatalf("%v ended with %d: %s", args, status, errs.String())
		}
		s := sampleOf(t, out.Bytes(), pid)
		if least := shareOf(t, pid); s.CPUPct > 1.02*most || s.CPUPct < 0.98*least {
			t.Errorf("cpu%% is %g, not within 2 %% of %g to %g", s.CPUPct, least, most)
		}
		compareWithProc(t, pid, s, job, memory)
		compareWithPs(t, pid, s)
	}
}

func sampleOf(t *testing.T, out []byte, pid int) *sonar.Sample {
	t.Helper()
	for rec, err := range sonar.Decode(bytes.NewReader(out)) {
		s, ok := rec.(*sonar.Sample)
		if err != nil || !ok {
			t.Fatalf("%v: %T", err, rec)
		}
		if s.PID == uint64(pid) {
			return s
		}
	}
	t.Fatalf("no record of process %d in %s", pid, out)
	return nil
}

// near fails the test if got is neither within 2 % of want nor within unit.
func near(t *testing.T, what string, got, want, unit float64) {
	t.Helper()
	if math.Abs(got-want) > max(0.02*want, unit) {
		t.Errorf("%s is %g, not within 2 %% of %g", what, got, want)
	}
}

func compareWithProc(t *testing.T, pid int, s *sonar.Sample, job, memory uint64) {
	t.Helper()
	self, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		t.Fatal(err)
	}
	if s.User != self.Username || s.PPID != uint64(os.Getpid()) || s.Cmd != strings.TrimSpace(string(comm)) || s.Job != job {
		t.Errorf("%+v; want user %s, parent %d, command %q, job %d", s, self.Username, os.Getpid(), comm, job)
	}
	near(t, "cputime_sec and /proc", float64(s.CPUTimeSec), math.Floor(float64(ticksOf(t, pid))/100), 0)
	near(t, "cpukib", float64(s.CPUKiB), statusOf(t, pid, "VmData")+statusOf(t, pid, "VmStk"), 0)
	near(t, "rssanonkib", float64(s.RSSAnonKiB), statusOf(t, pid, "RssAnon"), 0)
	if s.RSSAnonKiB < memory>>10 {
		t.Errorf("rssanonkib is %d of a process that touched %d KiB", s.RSSAnonKiB, memory>>10)
	}
}

// compareWithPs needs procps, which make test installs; compareWithProc covers the same
// figures where it is missing.
func compareWithPs(t *testing.T, pid int, s *sonar.Sample) {
	t.Helper()
	if _, err := exec.LookPath("ps"); err != nil {
		t.Logf("not compared with ps(1): %v; install procps", err)
		return
	}
	out, err := exec.Command("ps", "-o", "user:32=,ppid=,%cpu=,cputimes=,etimes=,comm=", "-p", strconv.Itoa(pid)).Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) != 6 {
		t.Fatalf("ps: %v: %q", err, out)
	}
	if s.User != words[0] || fmt.Sprint(s.PPID) != words[1] || s.Cmd != words[5] {
		t.Errorf("%+v; ps reports %q", s, words)
	}
	number := func(text string) float64 {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	// ps divides by whole seconds, of which the first and the last are not whole.
	near(t, "cpu% and ps", s.CPUPct, number(words[2]), number(words[2])*(0.02+1/number(words[4])))
	near(t, "cputime_sec and ps", float64(s.CPUTimeSec), number(words[3]), 0)
}

// loadVariable makes the test binary a load, see init.
const loadVariable = "RT_TEST_LOAD"

func init() {
	if os.Getenv(loadVariable) == "" {
		return
	}
	held := make([]byte, 48<<20)
	for i := 0; ; i++ {
		held[i*4096%len(held)]++
	}
}

// ticksOf is utime and stime of a process, in USER_HZ.
func ticksOf(t *testing.T, pid int) uint64 {
	t.Helper()
	words := statOf(t, pid)
	user, err1 := strconv.ParseUint(words[11], 10, 64)
	system, err2 := strconv.ParseUint(words[12], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return user + system
}

// shareOf is what a process has used of a core over its life, in percent.
func shareOf(t *testing.T, pid int) float64 {
	t.Helper()
	start, err1 := strconv.ParseFloat(statOf(t, pid)[19], 64)
	text, err2 := os.ReadFile("/proc/uptime")
	var up float64
	_, err3 := fmt.Sscan(string(text), &up)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return float64(ticksOf(t, pid)) / (up - start/100)
}

func procState(t *testing.T, pid int) string { return statOf(t, pid)[0] }

// statOf are the fields of /proc/<pid>/stat behind the command's name.
func statOf(t *testing.T, pid int) []string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

// statusOf is a line of /proc/<pid>/status in KiB.
func statusOf(t *testing.T, pid int, key string) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == key+":" {
			v, err := strconv.ParseFloat(words[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no %s of process %d", key, pid)
	return 0
}

func TestRollUp(t *testing.T) {
	list := []sonarProcess{
		{user: "a", cmd: "mpi", job: 7, pid: 1, ppid: 9, cpu: 50, ticks: 150, anon: 1, gpus: []uint32{1}, gpuUse: 10},
		{user: "a", cmd: "bash", job: 7, pid: 2, ppid: 9},
		{user: "a", cmd: "mpi", job: 7, pid: 3, ppid: 9, cpu: 60, ticks: 170, anon: 2, gpus: []uint32{0, 1}, gpuUse: 20},
		{user: "b", cmd: "mpi", job: 7, pid: 4},
		{user: "a", cmd: "mpi", pid: 5},
		{user: "a", cmd: "mpi", pid: 6},
		{user: "a", cmd: "bash", job: 7, pid: 8, ppid: 10},
	}
	want := []sonarProcess{
		{user: "a", cmd: "mpi", job: 7, ppid: 9, cpu: 110, ticks: 320, anon: 3, more: 1, gpus: []uint32{0, 1}, gpuUse: 30},
		{user: "a", cmd: "bash", job: 7, more: 1},
		list[3], list[4], list[5],
	}
	got := rollUp(list)
	if d := cmp.Diff(want, got, cmp.AllowUnexported(sonarProcess{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if s := got[0].sample(sonar.Sample{}); s.CPUTimeSec != 3 || s.RolledUp != 1 || s.PID != 0 || s.GPUs.String() != "0,1" {
		t.Errorf("%+v", s)
	}
}

func TestSonarFilter(t *testing.T) {
	at := sonarTaken{
		host: rt.Snapshot{Boot: 100e9, Node: rt.NodeReading{MemTotal: rt.Some[uint64](1000)}},
		all: []proc.Listed{
			{PID: 1, Comm: "systemd", UID: rt.Some[uint64](0), OwnTicks: 100},
			{PID: 2, Comm: "python3", UID: rt.Some[uint64](1000), OwnTicks: 5000, ChildTicks: 100, RSS: 10},
			{PID: 3, Comm: "R", UID: rt.Some[uint64](1001), RSS: 500},
			{PID: 4, Comm: "", State: 'Z'},
			{PID: 5, Comm: "late", UID: rt.Some[uint64](1001), Start: 20000, OwnTicks: 1},
		},
		name: func(uid uint64) string { return map[uint64]string{0: "root", 1000: "anna", 1001: "bob"}[uid] },
		job:  func(p *proc.Listed) uint64 { return uint64(p.PID * 10) },
	}
	for name, tc := range map[string]struct {
		filter sonarFilter
		want   string
	}{
		"all":            {sonarFilter{}, "1 2 3 4 5"},
		"system":         {sonarFilter{system: true}, "2 3 4 5"},
		"users":          {sonarFilter{users: []string{"root", "anna"}}, "3 4 5"},
		"commands":       {sonarFilter{commands: []string{"py", "R"}}, "1 4 5"},
		"cpu":            {sonarFilter{cpu: 50, cpuSet: true}, "2"},
		"time":           {sonarFilter{seconds: 51, secondsSet: true}, "2"},
		"memory":         {sonarFilter{memory: 50, memorySet: true}, "3"},
		"cpu or memory":  {sonarFilter{cpu: 50, cpuSet: true, memory: 50, memorySet: true}, "2 3"},
		"limits of zero": {sonarFilter{cpuSet: true}, "1 2 3 4 5"},
	} {
		var pids []string
		for _, p := range at.processes(tc.filter) {
			pids = append(pids, strconv.Itoa(p.pid))
		}
		if got := strings.Join(pids, " "); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	list := at.processes(sonarFilter{})
	if p := list[1]; p.cpu != 50 || p.ticks != 5100 || p.job != 20 {
		t.Errorf("%+v", p)
	}
	if list[3].user != "_zombie_4" || list[3].cmd != "_noinfo_" || list[4].cpu != 0 {
		t.Errorf("%+v, %+v", list[3], list[4])
	}
}

func TestSonarGPUUse(t *testing.T) {
	at := sonarTaken{
		host: rt.Snapshot{GPUs: []rt.GPUReading{
			{UUID: "GPU-a", Host: "0", VRAMTotal: rt.Some[uint64](1000), Detail: map[string]string{"nvml_version": "12", "pci_bus_id": "x"}, Name: "H100"},
			{UUID: "GPU-b", Host: "1", Detail: map[string]string{"nvml_version": "12"}, Name: "H100"},
			{UUID: "MIG-b1", Host: "1:0", VRAMTotal: rt.Some[uint64](2000), Detail: map[string]string{"parent_uuid": "GPU-b"}},
			{UUID: "0000:03:00.0", Host: "0000:03:00.0", Utilization: rt.Some(12.5), Power: rt.Some(99.9), Temperature: rt.Some[uint64](40), VRAMUsed: rt.Some[uint64](2048)},
		}},
		gpus: []rt.GPUProcessReading{
			{UUID: "GPU-a", PID: 5, VRAMUsed: rt.Some[uint64](500), Utilization: rt.Some(30.0)},
			{UUID: "MIG-b1", PID: 5, VRAMUsed: rt.Some[uint64](500)},
			{UUID: "GPU-gone", PID: 6},
		},
	}
	want := map[int]sonarProcess{5: {gpus: []uint32{0, 1}, gpuUse: 30, gpuMem: 75, gpuBytes: 1000}}
	if d := cmp.Diff(want, at.gpuUse(), cmp.AllowUnexported(sonarProcess{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	details := []gpu.Details{
		{UUID: "GPU-b", Fan: rt.Some[uint64](27), ComputeMode: "Prohibited", State: "P8", MemUtilization: rt.Some[uint64](3), MemClock: rt.Some[uint64](405),
			PowerLimit: rt.Some(250.9), MinPowerLimit: rt.Some(100.0), MaxPowerLimit: rt.Some(300.0), MaxClock: rt.Some[uint64](1980),
			MaxMemClock: rt.Some[uint64](2619), Architecture: "Hopper", Firmware: "96.00"},
	}
	gpus := sonarconv.GPUs(at.host.GPUs, details)
	if gpus[1] != (sonar.GPU{FanPct: 27, Mode: "Prohibited", Perf: "P8", MemUtilPct: 3, PowerLimitW: 250, MemClockMHz: 405}) {
		t.Errorf("%+v", gpus[1])
	}
	if len(gpus) != 3 || gpus[2] != (sonar.GPU{MemUseKiB: 2, UtilPct: 12, TempC: 40, PowerW: 99}) {
		t.Errorf("%+v", gpus)
	}
	cards := sonarCards(at.host.GPUs, details)
	if c := cards[1]; c.Arch != "Hopper" || c.Firmware != "96.00" || c.PowerLimitW != 250 || c.MinPowerLimitW != 100 || c.MaxPowerLimitW != 300 ||
		c.MaxClockMHz != 1980 || c.MaxMemClockMHz != 2619 {
		t.Errorf("%+v", c)
	}
	if len(cards) != 3 || cards[0].Manufacturer != "NVIDIA" || cards[2].Manufacturer != "AMD" || cards[2].Index != 2 || cards[1].Index != 1 {
		t.Errorf("%+v", cards)
	}
	h := rt.Host{CPUModel: "EPYC", VCPUs: rt.Some[uint64](8), MemoryMiB: rt.Some[uint64](4096)}
	s := sonarSysinfo(&h, []rt.GPUReading{
		{Host: "0", Name: "A100", VRAMTotal: rt.Some[uint64](40 << 30)}, {Host: "1", Name: "A100", VRAMTotal: rt.Some[uint64](40 << 30)},
	}, nil)
	if s.Description != "8x EPYC, 4 GiB, 2x A100 @ 40 GiB" || s.GPUCards != 2 || s.GPUMemGB != 80 || s.MemGB != 4 || s.CPUCores != 8 {
		t.Errorf("%+v", s)
	}
}

func TestJobOfCgroup(t *testing.T) {
	for text, want := range map[string]uint64{
		"0::/system.slice/n1_slurmstepd.scope/job_12/step_0/user/task_0\n":         12,
		"9:memory:/user.slice\n4:freezer:/slurm_n1/uid_1001/job_345/step_extern\n": 345,
		"0::/user.slice/job_x/a": 0,
		"0::/myjob_12":           0,
		"":                       0,
	} {
		if got := jobOfCgroup(text); got != want {
			t.Errorf("%q: job %d, want %d", text, got, want)
		}
	}
	if got := jobOf("/proc", &proc.Listed{PID: os.Getpid(), Cgroup: "0::/job_9"}); got != 9 {
		t.Errorf("job %d, want that of the cgroup", got)
	}
}

// TestSonarTaken reads this machine.
func TestSonarTaken(t *testing.T) {
	at, err := takeSonar(t.Context(), proc.NewFS("/proc", "/sys"), noGPUs{})
	if err != nil {
		t.Fatal(err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		t.Fatal(err)
	}
	if len(at.all) < 2 || at.host.Boot > now.Nano() || len(sonarconv.Load(&at.host)) == 0 || at.host.Node.MemTotal.Or(0) == 0 {
		t.Errorf("%d processes, boot %d of %d, load %v", len(at.all), at.host.Boot, now.Nano(), sonarconv.Load(&at.host))
	}
}

// noGPUs is a node without GPUs.
type noGPUs struct{}

func (noGPUs) Read(*rt.Snapshot) error { return nil }
func (noGPUs) Close() error            { return nil }
func (noGPUs) Details(dst []gpu.Details) []gpu.Details {
	return dst
}
func (noGPUs) Processes(dst []rt.GPUProcessReading) []rt.GPUProcessReading {
	return dst
}
