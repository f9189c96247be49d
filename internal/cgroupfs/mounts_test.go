package cgroupfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt/internal/procfile"
)

func TestMounts(t *testing.T) {
	hybrid, err := os.ReadFile("testdata/mountinfo-hybrid")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, info string
		want       Mounts
	}{
		{"hybrid, cpu and cpuacct together, a hierarchy bound into a box", string(hybrid), Mounts{
			V1: map[string]string{
				"cpu": "/sys/fs/cgroup/cpu,cpuacct", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct",
				"memory": "/sys/fs/cgroup/memory", "freezer": "/sys/fs/cgroup/freezer",
			},
			V2: "/sys/fs/cgroup/unified",
		}},
		{"bound before the whole", "90 22 0:36 /box /box rw - cgroup cgroup rw,memory\n40 34 0:36 / /all rw - cgroup cgroup rw,memory\n",
			Mounts{V1: map[string]string{"memory": "/all"}}},
		{"v2 alone, at a place with a space", `24 23 0:21 / /sys/fs/c\040g rw shared:4 - cgroup2 cgroup2 rw,nsdelegate`,
			Mounts{V1: map[string]string{}, V2: "/sys/fs/c g"}},
		{"none, and malformed lines", "x\n1 2 - cgroup2 a b\n1 2 3 4 5 6 - cgroup2\n", Mounts{V1: map[string]string{}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			proc := t.TempDir()
			if err := os.Mkdir(filepath.Join(proc, "self"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(proc, "self", "mountinfo"), []byte(tt.info), 0o644); err != nil {
				t.Fatal(err)
			}
			got, err := ReadMounts(proc)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
	if _, err := ReadMounts(t.TempDir()); err == nil || !strings.Contains(err.Error(), "find where cgroups are mounted") {
		t.Errorf("without mountinfo: %v", err)
	}
}

func FuzzMountInfo(f *testing.F) {
	b, err := os.ReadFile("testdata/mountinfo-hybrid")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`30 1 0:2 / /a\040b rw - cgroup2 cgroup2 rw`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for c, at := range mountsOf(procfile.ParseMountinfo(b)).V1 {
			if c == "" || at == "" || !isController(c) {
				t.Errorf("%q: controller %q at %q", b, c, at)
			}
		}
	})
}
