package cgroupfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReadOwn(t *testing.T) {
	const v1 = "40 34 0:36 ROOT DIR/memory rw - cgroup cgroup rw,memory\n"
	const v2 = "41 34 0:37 ROOT DIR/v2 rw - cgroup2 cgroup2 rw\n"
	for _, tt := range []struct {
		name, cgroup, mounts string
		version              int
		dirs                 string
	}{
		{"a container of v2 with a namespace of its own", "0::/\n", strings.ReplaceAll(v2, "ROOT", "/"), 2, "v2"},
		{"a pod", "0::/pod/box\n", strings.ReplaceAll(v2, "ROOT", "/"), 2, "v2/pod/box v2/pod v2"},
		{"the mounted part of v1", "9:memory:/docker/1\n0::/\n", strings.ReplaceAll(v1, "ROOT", "/docker/1") + strings.ReplaceAll(v2, "ROOT", "/"), 1, "memory"},
		{"below the mounted part", "9:memory:/docker/1/pod\n", strings.ReplaceAll(v1, "ROOT", "/docker/1"), 1, "memory/pod memory"},
		{"another container with the same beginning", "9:memory:/docker/12\n", strings.ReplaceAll(v1, "ROOT", "/docker/1"), 1, "memory"},
		{"outside of the namespace", "0::/../other\n", strings.ReplaceAll(v2, "ROOT", "/"), 2, "v2"},
		{"a path that is not mounted here", "0::/host/slice\n", strings.ReplaceAll(v2, "ROOT", "/"), 2, "v2"},
		{"a name with a colon and a line's form", "0::/pod:memory:x\n", strings.ReplaceAll(v2, "ROOT", "/"), 2, "v2/pod:memory:x v2"},
		{"memory in v1, and v2 without controllers", "9:memory:/pod\n0::/pod\n", strings.ReplaceAll(v2+v1, "ROOT", "/"), 1, "memory/pod memory"},
		{"nothing is mounted", "0::/\n", "", 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, sub := range []string{"self", "v2/pod/box", "v2/pod:memory:x", "memory/pod"} {
				if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for name, text := range map[string]string{"cgroup": tt.cgroup, "mountinfo": strings.ReplaceAll(tt.mounts, "DIR", dir)} {
				if err := os.WriteFile(filepath.Join(dir, "self", name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			own, err := ReadOwn(dir, "memory")
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for d := range strings.FieldsSeq(tt.dirs) {
				want = append(want, filepath.Join(dir, d))
			}
			if own.Version != tt.version || !slices.Equal(own.Dirs, want) {
				t.Errorf("%+v, want version %d and %q", own, tt.version, want)
			}
		})
	}
}
