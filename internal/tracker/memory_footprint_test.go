package tracker

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestCleanMappings(t *testing.T) {
	const smaps = `00400000-00800000 r-xp 00000000 08:01 42 /usr/libexec/rt/rt-tracker
Size:               4096 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
00800000-00900000 r--p 00400000 08:01 42 /usr/libexec/rt/rt tracker (deleted)
Anonymous:             0 kB
00900000-00901000 r--p 00500000 08:01 42 /usr/libexec/rt/rt-tracker
Anonymous:             4 kB
00901000-00a00000 rw-p 00501000 08:01 42 /usr/libexec/rt/rt-tracker
Anonymous:             0 kB
00a00000-00b00000 r--s 00000000 08:01 43 /var/spool/rt/1.db-shm
Anonymous:             0 kB
7f0000000000-7f0000001000 r--p 00000000 00:00 0
Anonymous:             0 kB
7fff00000000-7fff00001000 r-xp 00000000 00:00 0 [vdso]
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0x800000}, {0x800000, 0x900000}}
	if got := cleanMappings([]byte(smaps), ""); !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	if got := cleanMappings([]byte(smaps), "/usr/libexec/rt/rt-tracker"); !slices.Equal(got, want[:1]) {
		t.Errorf("of one file: %x, want %x", got, want[:1])
	}
}

// The program's code and constants are what they were.
func TestReleaseMemory(t *testing.T) {
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	if len(cleanMappings(text, "")) == 0 {
		t.Fatal("this program has no mapping to give back")
	}
	ReleaseMemory(true)
	if got := longestPause(lookYoung); got != lookSoon {
		t.Errorf("the longest pause became %s", got)
	}
}

// TestReleaseProgram: the pages of the program's file that the start has mapped are released,
// and the program continues to run.
func TestReleaseProgram(t *testing.T) {
	// The pages of a program count as RssShmem where its file is on a tmpfs, as the go
	// command's temporary directory may be.
	resident := func() (kib int) {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"RssFile:", "RssShmem:"} {
			var part int
			_, figure, _ := strings.Cut(string(status), key)
			if _, err := fmt.Sscan(figure, &part); err != nil {
				t.Fatalf("%s of /proc/self/status: %v", key, err)
			}
			kib += part
		}
		return kib
	}
	before := resident()
	ReleaseMemory(false)
	if after := resident(); after >= before {
		t.Errorf("%d KiB of files are mapped, %d KiB before", after, before)
	}
}

// The pages are released once after a garbage collection, and not twice within releaseEvery.
func TestProgramPages(t *testing.T) {
	p := NewProgramPages()
	if len(p.mappings) == 0 {
		t.Fatal("this program has no mapping to give back")
	}
	runtime.GC()
	p.Release(1)
	first := p.released
	if first == 0 {
		t.Fatal("nothing was released after a collection")
	}
	runtime.GC()
	p.Release(2)
	if p.released != first {
		t.Error("the pages were released again at once")
	}
	p.Release(1 + int64(releaseEvery))
	if p.released == first {
		t.Error("the pages were not released after the next collection")
	}
	if got := longestPause(lookYoung); got != lookSoon {
		t.Errorf("the longest pause became %s", got)
	}
	boot := 1 + 2*int64(releaseEvery)
	if n := testing.AllocsPerRun(100, func() { p.Release(boot) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
