package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Readings at events begin the kernel's peak again; a snapshot's is the highest since the
// snapshot before.
func TestIntervalPeak(t *testing.T) {
	name := filepath.Join(t.TempDir(), "memory.peak")
	if err := os.WriteFile(name, []byte("0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newJobFiles(2, nil, "")
	defer f.Close()
	if err := f.peak.file.OpenBytes([]byte(name+"\x00"), unix.O_RDWR); err != nil {
		t.Fatal(err)
	}
	var buf procfile.Buffer
	for _, st := range []struct {
		now       string
		want      uint64
		isWritten bool
	}{{"7000", 7000, true}, {"3000", 3000, false}, {"2000", 3000, true}, {"1500", 1500, true}} {
		if _, err := unix.Pwrite(f.peak.file.Fd(), []byte(st.now+"\n"), 0); err != nil {
			t.Fatal(err)
		}
		var r rt.JobReading
		f.Read(&r, &buf)
		f.ReadDone()
		if r.MemIntervalPeak != some(st.want) {
			t.Errorf("at %s: %v, want %d", st.now, r.MemIntervalPeak, st.want)
		}
		if st.isWritten {
			f.Written()
		}
	}
}
