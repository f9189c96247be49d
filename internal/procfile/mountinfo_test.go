package procfile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const mountinfo = `36 35 98:0 /a\040b /mnt\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
24 23 0:21 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate
25 23 0:22 / relative rw - tmpfs tmpfs rw
26 23 0:23 / /x rw shared:1 tmpfs tmpfs rw
27 23 0x1 / /x rw - tmpfs tmpfs rw
28 23 0:24 / /x rw -
x
`

func TestParseMountinfo(t *testing.T) {
	want := []Mount{
		{Major: 98, Root: "/a b", Point: "/mnt 2", FSType: "ext3", Source: "/dev/root", SuperOptions: "rw,errors=continue"},
		{Minor: 21, Root: "/", Point: "/sys/fs/cgroup", FSType: "cgroup2", Source: "cgroup2", SuperOptions: "rw,nsdelegate"},
	}
	if d := cmp.Diff(want, ParseMountinfo([]byte(mountinfo))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		`a\040b`: "a b", `\134040`: `\040`, `a\`: `a\`, `a\04`: `a\04`, `a\777`: `a\777`, `\303\266`: "ö", `a\0409`: "a 9",
	} {
		if got := Unescape([]byte(in)); got != want {
			t.Errorf("Unescape(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzMountinfo(f *testing.F) {
	for line := range strings.Lines(mountinfo) {
		f.Add([]byte(line))
	}
	f.Add([]byte(`1 2 8:1 /\134 /a\040b\011c\012d\134e\777 rw shared:1 master:2 - ext4 /dev/x rw` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		isWrong := func(m Mount) bool { return !strings.HasPrefix(m.Point, "/") || m.FSType == "" }
		for _, m := range ParseMountinfo(b) {
			if isWrong(m) {
				t.Errorf("%+v is no mount", m)
			}
		}
	})
}
