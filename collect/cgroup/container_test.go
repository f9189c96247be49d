package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

// container writes the files of a container with a proc of its own, and returns the proc.
func container(t *testing.T, version int, files map[string]string) (proc string, dir string) {
	t.Helper()
	dir = t.TempDir()
	cgroup, mount := "0::/pod/box\n", "41 34 0:37 / "+dir+" rw - cgroup2 cgroup2 rw\n"
	if version == 1 {
		cgroup, mount = "3:cpu,memory:/pod/box\n", "41 34 0:37 / "+dir+" rw - cgroup cgroup rw,cpu,memory\n"
	}
	proc = t.TempDir()
	putFiles(t, proc, map[string]string{"self/cgroup": cgroup, "self/mountinfo": mount})
	putFiles(t, dir, map[string]string{"pod/box/cgroup.procs": ""})
	putFiles(t, dir, files)
	return proc, dir
}

func putFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The lowest limit of a container and the cgroups above it counts, with the peak and the kills of its cgroup.
func TestContainer(t *testing.T) {
	u := func(v uint64) rt.Opt[uint64] { return rt.Some(v) }
	for _, tt := range []struct {
		name         string
		version      int
		files        map[string]string
		after        map[string]string // those that have changed at the second reading
		first, later rt.JobReading
	}{
		{"v2", 2, map[string]string{"pod/box/memory.max": "200\n", "pod/box/memory.peak": "50\n", "pod/box/memory.events": "low 0\noom 3\noom_kill 1\noom_group_kill 0\n"},
			map[string]string{"pod/box/memory.peak": "200\n", "pod/box/memory.events": "oom 4\noom_kill 2\n"},
			rt.JobReading{MemLimit: u(200), EventsOOMKill: u(1)}, rt.JobReading{MemLimit: u(200), MemPeak: u(200), EventsOOMKill: u(2)}},
		{"the pod has a lower limit", 2, map[string]string{"pod/box/memory.max": "max\n", "pod/memory.max": "300\n", "pod/memory.peak": "10\n", "memory.max": "400\n"},
			map[string]string{"pod/memory.peak": "20\n", "pod/box/memory.peak": "7\n"},
			rt.JobReading{MemLimit: u(300)}, rt.JobReading{MemLimit: u(300), MemPeak: u(20)}},
		{"before Linux 5.19", 2, map[string]string{"pod/box/memory.max": "200\n", "pod/box/memory.events": "oom_kill 0\n"}, nil,
			rt.JobReading{MemLimit: u(200), EventsOOMKill: u(0)}, rt.JobReading{MemLimit: u(200), EventsOOMKill: u(0)}},
		{"the peak was before", 2, map[string]string{"pod/box/memory.max": "200\n", "pod/box/memory.peak": "90\n"}, nil,
			rt.JobReading{MemLimit: u(200)}, rt.JobReading{MemLimit: u(200)}},
		{"v1", 1, map[string]string{"pod/box/memory.limit_in_bytes": "200\n", "memory.limit_in_bytes": "9223372036854771712\n", "pod/box/memory.max_usage_in_bytes": "50\n",
			"pod/box/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n"},
			map[string]string{"pod/box/memory.max_usage_in_bytes": "200\n", "pod/box/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"},
			rt.JobReading{MemLimit: u(200), EventsOOMKill: u(0)}, rt.JobReading{MemLimit: u(200), MemPeak: u(200), EventsOOMKill: u(5)}},
	} {
		proc, dir := container(t, tt.version, tt.files)
		c, err := NewContainer(proc)
		if err != nil || c == nil {
			t.Fatalf("%s: %v %v", tt.name, c, err)
		}
		for i, want := range []rt.JobReading{tt.first, tt.later} {
			var s rt.Snapshot
			if err := c.Read(&s); err != nil || s.Job != want {
				t.Errorf("%s, reading %d: %+v, want %+v, %v", tt.name, i+1, s.Job, want, err)
			}
			putFiles(t, dir, tt.after)
		}
	}
	for name, text := range map[string]string{"v1": "9223372036854771712\n", "v2": "max\n"} {
		version := int(name[1] - '0')
		proc, _ := container(t, version, map[string]string{"pod/box/" + limitFiles[version]: text})
		if c, err := NewContainer(proc); c != nil || err != nil {
			t.Errorf("%s without a limit: %+v, %v", name, c, err)
		}
	}
}

func TestCPULimit(t *testing.T) {
	for _, tt := range []struct {
		version int
		files   string // name=text
		want    rt.Opt[uint64]
	}{
		{2, "pod/box/cpu.max=150000 100000", rt.Some[uint64](2)},
		{2, "pod/box/cpu.max=max 100000", rt.None[uint64]()},
		{2, "pod/box/cpu.max=400000 100000,pod/cpu.max=50000 100000", rt.Some[uint64](1)},
		{1, "pod/box/cpu.cfs_quota_us=-1,pod/box/cpu.cfs_period_us=100000", rt.None[uint64]()},
		{1, "pod/box/cpu.cfs_quota_us=300000,pod/box/cpu.cfs_period_us=100000", rt.Some[uint64](3)},
	} {
		files := map[string]string{}
		for one := range strings.SplitSeq(tt.files, ",") {
			name, text, _ := strings.Cut(one, "=")
			files[name] = text + "\n"
		}
		proc, _ := container(t, tt.version, files)
		if got, err := CPULimit(proc); got != tt.want || err != nil {
			t.Errorf("%s: %v, want %v, %v", tt.files, got, tt.want, err)
		}
	}
}
