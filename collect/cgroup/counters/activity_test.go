package counters

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// A step that has neither run nor changed its memory is not read completely after some time, except for the
// bytes that the kernel writes back later.
func TestReadChanged(t *testing.T) {
	for version, tc := range map[int]struct {
		controllers       []string
		cpu, mem, peak    string
		cpuText, otherCPU string
		ioFile, io        string
	}{
		1: {[]string{"cpuacct", "memory", "blkio"}, "cpuacct.usage", "memory.usage_in_bytes", "memory.max_usage_in_bytes", "5000\n", "6000\n",
			"blkio.throttle.io_service_bytes_recursive", "8:0 Read 1\n8:0 Write 2\n"},
		2: {[]string{""}, "cpu.stat", "memory.current", "memory.peak", "usage_usec 5\n", "usage_usec 6\n", "io.stat", "8:0 rbytes=1 wbytes=2\n"},
	} {
		dir := t.TempDir()
		put := func(name, text string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		put(tc.cpu, tc.cpuText)
		put(tc.mem, "4096\n")
		put(tc.peak, "8192\n")
		put(tc.ioFile, "")
		f := NewStepFiles(version, nil)
		for _, c := range tc.controllers {
			if err := f.Open(c, dir); err != nil {
				t.Fatal(err)
			}
		}
		var buf procfile.Buffer
		var boot int64
		read := func(what string, wantChanged bool, wantPeak rt.Opt[uint64]) rt.JobReading {
			t.Helper()
			boot += settled / 2
			var r rt.JobReading
			if got := f.ReadChanged(&r, &buf, boot); got != wantChanged || r.MemPeak != wantPeak {
				t.Errorf("v%d, %s: changed %t, peak %v; want %t, %v", version, what, got, r.MemPeak, wantChanged, wantPeak)
			}
			return r
		}
		some := rt.Some[uint64]
		read("the first reading", true, some(8192))
		put(tc.peak, "8448\n") // the kernel updates a figure later
		for range 3 {          // at exactly settled the kernel may still update it
			read("nothing happened", true, some(8448))
		}
		read("nothing happened", false, rt.Opt[uint64]{})
		put(tc.ioFile, tc.io)
		if r := read("written back", false, rt.Opt[uint64]{}); r.IOReadBytes != some(1) || r.IOWriteBytes != some(2) {
			t.Errorf("v%d: read %v, written %v", version, r.IOReadBytes, r.IOWriteBytes)
		}
		put(tc.peak, "16384\n")
		put(tc.mem, "12288\n")
		read("memory was charged", true, some(16384))
		put(tc.cpu, tc.otherCPU)
		read("a process ran", true, some(16384))
		for range 3 { // at exactly settled the kernel may still update it
			read("nothing happened again", true, some(16384))
		}
		read("nothing happened again", false, rt.Opt[uint64]{})
		var r rt.JobReading
		f.Read(&r, &buf)
		if r.MemPeak != some(16384) {
			t.Errorf("v%d: a complete reading has the peak %v", version, r.MemPeak)
		}
		f.Drop(tc.controllers[0])
		read("the CPU time can no longer be read", true, map[int]rt.Opt[uint64]{1: some(16384)}[version])
	}
}
