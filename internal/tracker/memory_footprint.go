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

// DeferGC uses two processors and collects no garbage up to a heap of 64 MiB, ten times that of a
// start, before LimitMemory: the Prolog waits for the start, and an Epilog may follow at once.
func DeferGC() {
	const maxHeap = 64 << 20 // bytes
	runtime.GOMAXPROCS(2)
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(maxHeap)
}

// ReleaseMemory returns garbage to the kernel, and the mapped pages of the program's file, or
// of its libraries too. Pages that are needed again come back from the page cache.
func ReleaseMemory(libraries bool) {
	debug.FreeOSMemory() // first, because it reads much of the program
	only := ""
	if !libraries {
		var err error
		only, err = os.Readlink("/proc/self/exe")
		if err != nil {
			return
		}
	}
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return // the process stays as large as it is
	}
	release(cleanMappings(text, only))
}

// ProgramPages keeps few pages of the program's file mapped. A garbage collection reads much of the
// program to find pointers on the stacks, and the runtime makes one at least every two minutes. Go's
// tables and code are spread over the file, and the kernel maps 16 pages for each that is read.
type ProgramPages struct {
	mappings []mapping
	cycles   [1]metrics.Sample // of the garbage collector
	released uint64            // the cycles at the last release
	next     int64             // not before this boot time, in nanoseconds
}

// releaseEvery is the minimum time between two releases of the program's pages.
const releaseEvery = time.Minute

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

// NewProgramPages finds the mappings of the program's file, none if it is not on a local file system.
func NewProgramPages() *ProgramPages {
	p := &ProgramPages{cycles: [1]metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil || !isOnLocalFileSystem("/proc/self/exe") {
		return p // the process stays as large as it is
	}
	text, err := os.ReadFile("/proc/self/smaps")
	if err == nil {
		p.mappings = cleanMappings(text, exe)
	}
	return p
}

// Release releases the pages if there was a garbage collection since the last release. boot is the
// boot time. The caller is the goroutine that takes the readings: a collection halves its stack, and
// the runtime would read its tables again to enlarge the stack at the next reading.
func (p *ProgramPages) Release(boot int64) {
	metrics.Read(p.cycles[:])
	if p.cycles[0].Value.Kind() != metrics.KindUint64 || boot < p.next {
		return
	}
	cycles := p.cycles[0].Value.Uint64()
	if cycles == p.released {
		return
	}
	p.released, p.next = cycles, boot+int64(releaseEvery)
	useStack()
	release(p.mappings)
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

func release(mappings []mapping) {
	for _, m := range mappings {
		// This is advice: if the kernel refuses it, only the saving is lost.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// cleanMappings finds in the text of smaps, see proc_pid_smaps(5), the private mappings of
// files that cannot be written to and hold no page of the process's own, as relocated
// constants do. only is the path of the one file to consider; empty for all files.
func cleanMappings(text []byte, only string) (list []mapping) {
	var m mapping
	var isCandidate bool
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		switch {
		case len(f) >= 5 && bytes.IndexByte(f[0], '-') > 0: // addresses, permissions, offset, device, inode, file
			isCandidate = len(f) >= 6 && f[5][0] == '/' && isCleanMode(f[1])
			if isCandidate && only != "" {
				isCandidate = string(f[5]) == only
			}
			if isCandidate {
				m, isCandidate = addresses(f[0])
			}
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
