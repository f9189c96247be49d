package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

func TestCPU(t *testing.T) {
	s := once(t, NewCPU(fixture(t)))
	want := []rt.CPUReading{
		{CPU: 0, Times: rt.CPUTimes{User: 3547, Nice: 5, System: 1251, Idle: 134273, IOWait: 45, SoftIRQ: 11, Steal: 3}},
		{CPU: 1, Times: rt.CPUTimes{User: 4286, Nice: 7, System: 1714, Idle: 132604, IOWait: 327, IRQ: 1, SoftIRQ: 89, Steal: 10}},
		{CPU: 17, Times: rt.CPUTimes{User: 1, Idle: 1, IOWait: 1, SoftIRQ: 1, Steal: 1}},
	}
	if d := cmp.Diff(want, s.CPUs); d != "" {
		t.Errorf("CPUs (-want +got):\n%s", d)
	}
	total := rt.CPUTimes{User: 7834, Nice: 12, System: 2965, Idle: 266878, IOWait: 373, IRQ: 1, SoftIRQ: 101, Steal: 14}
	if got := s.Node.CPU.Or(rt.CPUTimes{}); got != total || s.Node.CPUs.Or(0) != 3 {
		t.Errorf("the node: %+v, %v CPUs", got, s.Node.CPUs)
	}
}

// A node of 256 CPUs has more text than the first buffer holds.
func TestCPUOfABigNode(t *testing.T) {
	root := fixture(t)
	var text strings.Builder
	text.WriteString("cpu  1 2 3 4 5 6 7 8 0 0\n")
	for i := range 256 {
		fmt.Fprintf(&text, "cpu%d 1111111111 2222222222 3333333333 4444444444 5 6 7 %d 0 0\n", i, i)
	}
	write(t, root.Proc+"/stat", text.String()+"intr 1\n")
	s := once(t, NewCPU(root))
	if len(s.CPUs) != 256 || s.CPUs[255].CPU != 255 || s.CPUs[255].Times.Steal != 255 {
		t.Errorf("%d CPUs, the last is %+v", len(s.CPUs), s.CPUs[len(s.CPUs)-1])
	}
}

func TestStatRefused(t *testing.T) {
	for _, text := range []string{
		"", "intr 1\n", "cpu 1 2 3\n", "cpu 1 2 3 4 5 6 7 8\n", "cpu0 1 2 3 4 5 6 7 8\n",
		"cpu 1 2 3 4 5 6 7 8\ncpu1 1 2 3 4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 8\n",
		"cpu 1 2 3 4 5 6 7 8\ncpux 1 2 3 4 5 6 7 8\n",
		"cpu 1 2 3 -4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 8\n",
		"cpu 1 2 3 4 5 6 7 99999999999999999999\ncpu0 1 2 3 4 5 6 7 8\n",
	} {
		if _, _, err := parseStat([]byte(text), nil); err == nil {
			t.Errorf("%q is taken for a stat", text)
		}
	}
}

func TestMemory(t *testing.T) {
	s := once(t, NewMemory(fixture(t)))
	const kib = 1024
	want := rt.NodeReading{
		MemTotal: rt.Some[uint64](24684092 * kib), MemFree: rt.Some[uint64](24000112 * kib),
		MemAvailable: rt.Some[uint64](24259344 * kib), Buffers: rt.Some[uint64](3116 * kib),
		Cached: rt.Some[uint64](427904 * kib), SReclaimable: rt.Some[uint64](87416 * kib),
		Shmem: rt.Some[uint64](8856 * kib), Active: rt.Some[uint64](144164 * kib),
		Inactive: rt.Some[uint64](319068 * kib), SwapTotal: rt.Some[uint64](2097148 * kib),
		SwapFree: rt.Some[uint64](2097140 * kib),
	}
	if d := cmp.Diff(want, s.Node, opts); d != "" {
		t.Errorf("memory (-want +got):\n%s", d)
	}
}

// A line that is not there is absent, not zero.
func TestMemoryOfAnotherKernel(t *testing.T) {
	var n rt.NodeReading
	if err := parseMeminfo([]byte("MemTotal: 10 kB\nMemFree: x kB\nCached: 18446744073709551615 kB\n"), &n); err != nil {
		t.Fatal(err)
	}
	if n.MemFree.Valid() || n.Cached.Valid() || n.SwapTotal.Valid() || n.MemTotal.Or(0) != 10240 {
		t.Errorf("%+v", n)
	}
	if err := parseMeminfo([]byte("MemFree: 1 kB\n"), &rt.NodeReading{}); err == nil {
		t.Error("a meminfo without a total is taken")
	}
}

// Free huge pages are neither free memory nor in use.
func TestHugePages(t *testing.T) {
	const page = 2 << 20
	text := "MemTotal: 10240000 kB\nMemFree: 1024000 kB\nBuffers: 0 kB\nCached: 0 kB\nSReclaimable: 0 kB\nHugePages_Total: 2000\nHugePages_Free: 1500\nHugePages_Rsvd: 0\nHugepagesize: 2048 kB\nHugetlb: 4096000 kB\n"
	var n rt.NodeReading
	if err := parseMeminfo([]byte(text), &n); err != nil {
		t.Fatal(err)
	}
	used := uint64(10240000-1024000) << 10
	if n.HugeFree != rt.Some[uint64](1500*page) || n.MemUsed() != rt.Some(used) || n.MemInUse() != rt.Some(used-1500*page) {
		t.Errorf("free %v, used %v, in use %v", n.HugeFree, n.MemUsed(), n.MemInUse())
	}
	for _, bad := range []string{"HugePages_Free: 5\n", "Hugepagesize: 2048 kB\n", "HugePages_Free: 18446744073709551615\nHugepagesize: 2048 kB\n"} {
		var n rt.NodeReading
		if err := parseMeminfo([]byte("MemTotal: 1 kB\n"+bad), &n); err != nil || n.HugeFree.Valid() {
			t.Errorf("%q: %v, %v", bad, n.HugeFree, err)
		}
	}
}

func TestProcesses(t *testing.T) {
	root := fixture(t) // has process 1
	for _, dir := range []string{"17", "4194304", "self", "12x", "sys"} {
		write(t, filepath.Join(root.Proc, dir, "stat"), "")
	}
	s := once(t, NewProcesses(root))
	if got := s.Node.Processes.Or(0); got != 3 {
		t.Errorf("%d processes, want 3", got)
	}
}

// A new process is found through the held descriptor.
func TestProcessesAgain(t *testing.T) {
	root := fixture(t)
	src := NewProcesses(root)
	for n := uint64(1); n < 5; n++ {
		var s rt.Snapshot
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
		if got := s.Node.Processes.Or(0); got != n {
			t.Errorf("%d processes, want %d", got, n)
		}
		write(t, fmt.Sprintf("%s/%d/stat", root.Proc, 100+n), "")
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

// The pids come from the reading, or from a list of their own if another tracker read the node.
func TestPIDs(t *testing.T) {
	root := fixture(t)
	src := NewProcesses(root)
	defer src.Close()
	var s rt.Snapshot
	if err := src.Read(&s); err != nil {
		t.Fatal(err)
	}
	write(t, root.Proc+"/17/stat", "")
	for want := 1; want <= 2; want++ {
		if pids, err := src.PIDs(&s); err != nil || len(pids) != want {
			t.Errorf("processes %v, want %d, %v", pids, want, err)
		}
		s.Node.ReadBoot = 1
	}
}

// A missing file is an error of its source, which reads the file once it exists.
func TestFileThatComesLater(t *testing.T) {
	dir := t.TempDir()
	root := NewFS(dir, dir)
	for _, src := range []interface {
		reader
		Name() string
	}{NewCPU(root), NewMemory(root), NewNet(root), NewDisk(root)} {
		var s rt.Snapshot
		if err := src.Read(&s); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", src.Name(), err)
		}
	}
	mem := NewMemory(root)
	var s rt.Snapshot
	if err := mem.Read(&s); err == nil {
		t.Error("no error without a file")
	}
	write(t, dir+"/meminfo", "MemTotal: 1 kB\n")
	if err := mem.Read(&s); err != nil || s.Node.MemTotal.Or(0) != 1024 {
		t.Errorf("%v, %v", s.Node.MemTotal, err)
	}
	if err := mem.Close(); err != nil {
		t.Error(err)
	}
}

func FuzzNode(f *testing.F) {
	seeds := files(f)
	for _, name := range []string{"proc/stat", "proc/meminfo", "proc/net/dev", "proc/diskstats"} {
		f.Add(seeds[name])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, cpus, err := parseStat(b, nil); err == nil {
			for i := 1; i < len(cpus); i++ {
				if cpus[i].CPU <= cpus[i-1].CPU {
					t.Errorf("CPU %d follows %d", cpus[i].CPU, cpus[i-1].CPU)
				}
			}
		}
		var n rt.NodeReading
		if err := parseMeminfo(b, &n); err == nil && !n.MemTotal.Valid() {
			t.Error("no total and no error")
		}
		for name := range interfaces(b) {
			if len(name) == 0 {
				t.Fatal("an interface without a name")
			}
		}
		if name, now, ok := parseDiskstats(b); ok && (len(name) == 0 || now[0]%sectorBytes != 0 || now[1]%sectorBytes != 0) {
			t.Errorf("disk %q: %v", name, now)
		}
	})
}
