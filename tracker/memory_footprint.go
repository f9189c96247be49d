package tracker

import (
	"bytes"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// gcPercent collects garbage from 1 MiB on, not from 4.
const gcPercent = 25

// LimitMemory keeps the heap small and uses two processors. A fixed number also saves
// the runtime from reading the limits of its cgroup once a second.
func LimitMemory() {
	runtime.GOMAXPROCS(2)
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(math.MaxInt64) // near a limit the collector would run all the time
}

// maxHeap is the heap at which the runtime makes collections by itself, in bytes.
const maxHeap = 64 << 20

// DeferGC uses six processors and collects no garbage up to a heap of 64 MiB, ten times that of a
// start, before NewFootprint: the Prolog waits for the start, and an Epilog may follow at once. Seldom more than four
// goroutines make system calls at once. One more than there are processors would wait for one that another keeps: the
// runtime takes it at the second wake-up of its monitor thread, 10 ms later with the timer slack of rt-prolog.
func DeferGC() {
	runtime.GOMAXPROCS(6)
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(maxHeap)
}

// ProgramPages keeps few pages of the program's file and of its libraries mapped. Go's tables and code are spread
// over the file. Pages that are needed again come back from the page cache.
type ProgramPages struct {
	mappings []mapping
	next     int64 // boot time in nanoseconds of the next release
}

// releaseEvery is the minimum time between two releases of the program's pages. A release costs up to half a
// millisecond, in the readings after it: every 10 s that is half as much as the readings of a small job.
const releaseEvery = 5 * time.Minute

// firstRelease is the time until the second release, which releases what the first readings and collections needed.
const firstRelease = 10 * time.Second

// localFileSystems are file systems of a disk or of memory, see statfs(2). From a network file system a
// page may come late, or never again if the file was replaced.
var localFileSystems = []int64{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC,
	unix.OVERLAYFS_SUPER_MAGIC, unix.SQUASHFS_MAGIC, unix.EROFS_SUPER_MAGIC_V1, 0x2fc12fc1, // the last is ZFS
}

// isOnLocalFileSystem reports whether the pages of a file are read from this machine.
func isOnLocalFileSystem(path string) bool {
	var fs unix.Statfs_t
	err := unix.Statfs(path, &fs)
	return err == nil && slices.Contains(localFileSystems, int64(fs.Type))
}

// NewProgramPages finds the mappings of the files that are on a local file system, and releases their pages. boot
// is the boot time in nanoseconds.
func NewProgramPages(boot int64) *ProgramPages {
	p := &ProgramPages{}
	text, err := os.ReadFile("/proc/self/smaps")
	if err == nil { // else the process stays as large as it is
		p.mappings = cleanMappings(text, isOnLocalFileSystem)
	}
	for _, m := range p.mappings {
		m.split()
	}
	p.release(boot)
	p.next = boot + int64(firstRelease)
	return p
}

// partPages is the number of pages of the parts in which the kernel maps a file. With a page that is read it maps
// those around it, 64 KiB, of which a tracker needs a third. It maps none beyond the end of a mapping. The kernel
// needs 200 bytes of memory for each part: 0.2 MiB for a tracker, which maps 2.5 MiB less.
const partPages = 2

// split splits m in parts. The kernel splits a mapping where the flags differ, and MADV_DONTDUMP sets a flag without
// another effect: a core dump has no page of a file except the first, which is in no such part.
func (m mapping) split() {
	size := uintptr(partPages * os.Getpagesize())
	for start := m.start + size; start+size < m.end; start += 2 * size {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, start, size, unix.MADV_DONTDUMP) // advice, see release
	}
}

// Release releases the pages if the last release was releaseEvery ago. boot is the boot time in nanoseconds. The
// caller is the goroutine that takes the readings: a collection halves its stack, and the runtime would read its
// tables again to enlarge the stack at the next reading.
func (p *ProgramPages) Release(boot int64) {
	if boot >= p.next {
		p.release(boot)
	}
}

func (p *ProgramPages) release(boot int64) {
	p.next = boot + int64(releaseEvery)
	useStack()
	for _, m := range p.mappings {
		// This is advice: if the kernel refuses it, only the saving is lost.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
	}
}

// Footprint keeps a program small that runs for days. The runtime itself would collect garbage every two
// minutes even if there is hardly any. Each collection reads much of the program to find pointers on the stacks.
type Footprint struct {
	pages   *ProgramPages
	objects [1]metrics.Sample // bytes in use, garbage included
	most    uint64            // bytes at which the next collection is due
}

// maxGarbage is the amount of garbage that is collected, in bytes. It is gcPercent of a large heap.
const maxGarbage = 256 << 10

// NewFootprint collects garbage and returns it to the kernel. The runtime makes no collections up to a limit,
// see DeferGC, so that Collect must be called from now on. boot is the boot time in nanoseconds.
func NewFootprint(boot int64) *Footprint {
	f := &Footprint{objects: [1]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}}
	debug.FreeOSMemory() // first, because it reads much of the program
	f.pages = NewProgramPages(boot)
	f.setMost()
	return f
}

// Collect collects garbage if there is much, returns it to the kernel, and releases the program's pages after
// that and from time to time. boot is the boot time in nanoseconds.
func (f *Footprint) Collect(boot int64) {
	if f.inUse() < f.most {
		f.pages.Release(boot)
		return
	}
	debug.FreeOSMemory() // while it makes no collections, the runtime returns nothing by itself
	f.setMost()
	f.pages.release(boot)
}

// inUse returns the bytes of the objects in the heap, garbage included.
func (f *Footprint) inUse() uint64 {
	metrics.Read(f.objects[:])
	if f.objects[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return f.objects[0].Value.Uint64()
}

// setMost is called after a collection. The limit of the runtime stays far above what is in use: near it the
// collector would run all the time.
func (f *Footprint) setMost() {
	used := f.inUse()
	f.most = used + max(maxGarbage, used*gcPercent/100)
	debug.SetMemoryLimit(int64(max(maxHeap, 4*used)))
}

// useStack enlarges the stack of the goroutine for the deepest calls of a reading.
//
//go:noinline
func useStack() {
	var frame [12 << 10]byte
	for i := range frame {
		frame[i] = byte(i)
	}
	runtime.KeepAlive(&frame)
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// cleanMappings finds in the text of smaps, see proc_pid_smaps(5), the private mappings of
// files that cannot be written to and hold no page of the process's own, as relocated
// constants do. isReleased accepts the path of a file.
func cleanMappings(text []byte, isReleased func(path string) bool) (list []mapping) {
	var m mapping
	var isCandidate bool
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		switch {
		case len(f) >= 5 && bytes.IndexByte(f[0], '-') > 0: // addresses, permissions, offset, device, inode, file
			isCandidate = len(f) >= 6 && f[5][0] == '/' && isCleanMode(f[1])
			if isCandidate {
				m, isCandidate = addresses(f[0])
			}
			isCandidate = isCandidate && isReleased(string(f[5]))
		case isCandidate && len(f) >= 2 && string(f[0]) == "Anonymous:":
			if string(f[1]) == "0" {
				list = append(list, m)
			}
			isCandidate = false
		}
	}
	return list
}

// isCleanMode accepts r-xp and r--p: readable, not writable, private.
func isCleanMode(mode []byte) bool {
	return len(mode) == 4 && mode[0] == 'r' && mode[1] == '-' && mode[3] == 'p'
}

func addresses(field []byte) (m mapping, ok bool) {
	first, last, _ := bytes.Cut(field, []byte("-"))
	start, err1 := strconv.ParseUint(string(first), 16, 64)
	end, err2 := strconv.ParseUint(string(last), 16, 64)
	return mapping{uintptr(start), uintptr(end)}, err1 == nil && err2 == nil && start < end
}
