package tracker

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// all accepts each file.
func all(string) bool { return true }

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
	if got := cleanMappings([]byte(smaps), all); !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	isTracker := func(path string) bool { return path == "/usr/libexec/rt/rt-tracker" }
	if got := cleanMappings([]byte(smaps), isTracker); !slices.Equal(got, want[:1]) {
		t.Errorf("of one file: %x, want %x", got, want[:1])
	}
}

// residentFiles returns the KiB of files that are mapped. The pages of a program count as RssShmem where its file is
// on a tmpfs, as the go command's temporary directory may be.
func residentFiles(t *testing.T) (kib int) {
	t.Helper()
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

// TestReleaseProgram: the pages of the program's file that the start has mapped are released,
// and the program continues to run.
func TestReleaseProgram(t *testing.T) {
	before := residentFiles(t)
	p := NewProgramPages(1)
	if len(p.mappings) == 0 {
		t.Fatal("this program has no mapping to give back")
	}
	if after := residentFiles(t); after >= before {
		t.Errorf("%d KiB of files are mapped, %d KiB before", after, before)
	}
	p.Release(int64(firstRelease))
	if p.next != 1+int64(firstRelease) {
		t.Errorf("the pages were released again at once, the next release is at %d", p.next)
	}
	p.Release(1 + int64(firstRelease))
	if p.next != 1+int64(firstRelease+releaseEvery) {
		t.Errorf("the pages were not released again, the next release is at %d", p.next)
	}
	if got := longestPause(lookYoung); got != lookSoon { // code and constants are what they were
		t.Errorf("the longest pause became %s", got)
	}
}

// TestSplit: a page that is read maps no more than its part of the file.
func TestSplit(t *testing.T) {
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	const parts = 4
	size := 64 * parts * os.Getpagesize()
	b, err := unix.Mmap(int(exe.Fd()), 0, size, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(b); err != nil {
			t.Error(err)
		}
	}()
	start := uintptr(unsafe.Pointer(&b[0]))
	mapping{start, start + uintptr(size)}.split()
	if err := unix.Madvise(b, unix.MADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	sum := byte(0)
	for i := range parts {
		sum += b[i*size/parts]
	}
	runtime.KeepAlive(sum)
	if n, most := mappedPages(t, start, uintptr(size)), parts*partPages; n < parts || n > most {
		t.Errorf("%d pages that are read map %d pages, want at most %d", parts, n, most)
	}
}

// mappedPages returns the number of pages of this process in a range of addresses, see proc_pid_pagemap(5).
func mappedPages(t *testing.T, start, size uintptr) (n int) {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page := uintptr(os.Getpagesize())
	entries := make([]byte, size/page*8)
	if _, err := f.ReadAt(entries, int64(start/page*8)); err != nil {
		t.Fatal(err)
	}
	for entry := range slices.Chunk(entries, 8) {
		if binary.NativeEndian.Uint64(entry)>>63 != 0 {
			n++
		}
	}
	return n
}

// Garbage is collected when there is much of it, and only then.
func TestCollect(t *testing.T) {
	percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(-1)
	defer func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}()
	f := NewFootprint(1)
	cycles := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumGC
	}
	before := cycles()
	if n := testing.AllocsPerRun(100, func() { f.Collect(1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := cycles() - before; n != 0 {
		t.Errorf("%d collections without garbage", n)
	}
	f.Collect(1 + int64(firstRelease))
	if f.pages.next != 1+int64(firstRelease+releaseEvery) {
		t.Errorf("the next release is at %d", f.pages.next)
	}
	before = cycles()
	permitted := f.most - f.inUse()
	for range 64 {
		garbage = make([]byte, permitted/16)
		f.Collect(1)
	}
	if n := cycles() - before; n == 0 || n > 32 {
		t.Errorf("%d collections in 64 readings with four times the garbage that was permitted", n)
	}
	if got := longestPause(lookYoung); got != lookSoon {
		t.Errorf("the longest pause became %s", got)
	}
}
