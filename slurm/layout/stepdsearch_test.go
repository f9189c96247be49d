package layout

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/resource-tracker/rt"
)

// A slurmstepd has another name when it starts. Another process is not read again
// after some searches, until its pid is reused.
func TestStepdSearch(t *testing.T) {
	root := t.TempDir()
	put := func(pid int, cmdline, uid string) {
		t.Helper()
		dir := filepath.Join(root, strconv.Itoa(pid))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"cmdline": cmdline, "status": "Name:\tx\nUid:\t" + uid + "\t0\t0\t0\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := NewStepdSearch(root, &rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](12)}})
	want := func(when string, among []int, stepds ...int) {
		t.Helper()
		if got := s.Among(among); !slices.Equal(got, stepds) {
			t.Errorf("%s: slurmstepds %v, want %v", when, got, stepds)
		}
	}
	put(7, "/usr/sbin/slurmd", "0")
	put(8, "slurmstepd: [12.extern]", "0")
	put(9, "slurmstepd: [12.batch]", "1000")
	put(10, "slurmstepd: [13.batch]", "0")
	want("first", []int{7, 8, 9, 10}, 8)
	put(7, "slurmstepd: [12.batch]", "0")
	want("a slurmstepd has its name", []int{7, 8, 9, 10}, 7, 8)
	for range maxReads {
		want("nothing new", []int{7, 8, 9, 10}, 7, 8)
	}
	put(10, "slurmstepd: [12.0]", "0")
	want("a name that comes too late", []int{7, 8, 9, 10}, 7, 8)
	want("it has ended", []int{7, 9}, 7)
	want("another process has its pid", []int{7, 9, 10}, 7, 10)

	put(9, "slurmstepd: [12.1]", "0")
	found := false
	for range searchesAgain {
		found = found || slices.Contains(s.Among([]int{7, 9}), 9)
	}
	if !found {
		t.Error("a process that got the pid of another between two searches is never found")
	}
}
