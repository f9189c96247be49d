//go:build e2e

package delivery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDrainMemory drains RT_RUNS runs, with the receiver in another process: the memory of a drain does
// not grow with their number. The limit is that for 10,000, which contrib/test/kills has.
func TestDrainMemory(t *testing.T) {
	const limit = 72 << 20
	runs := envNumber(t, "RT_RUNS", 800)
	s := newSite(t)
	inMemory(t, s)
	random := newRandom(t)
	template := put(t, s.path("spool"), 1, 40, random)
	text, err := os.ReadFile(template.path)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < runs; n++ {
		if err := os.WriteFile(filepath.Join(s.path("spool"), fmt.Sprintf("job-%d-n1-%d.db", n+1, began.UnixMilli())), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := serve(t, s)
	s.configure(t, "http://"+r.addr, `sacct = "off"`)
	cmd := s.rtSpool("drain", "--json")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	peak := watchPeak(cmd.Process.Pid)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	var sum struct {
		Delivered int     `json:"runs_delivered"`
		Secs      float64 `json:"elapsed_secs"`
	}
	if err := json.Unmarshal(out.Bytes(), &sum); err != nil || sum.Delivered != runs {
		t.Fatalf("%d runs delivered, %v", sum.Delivered, err)
	}
	resident := <-peak
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Logf("%d runs in %.0f s, %.1f ms of CPU time each, at most %d MiB resident", runs, sum.Secs, cpu.Seconds()*1e3/float64(runs), resident>>20)
	if resident == 0 || resident > limit {
		t.Errorf("drain took %d MiB, the limit is %d", resident>>20, limit>>20)
	}
}

// watchPeak returns the highest resident memory of a process in bytes, from the last reading before
// its end. getrusage(2) would include the memory of this process, which is larger: the child shared
// it until exec.
func watchPeak(pid int) <-chan int64 {
	peak := make(chan int64, 1)
	go func() {
		var last int64
		for {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, after, found := strings.Cut(string(text), "VmHWM:")
			if err != nil || !found { // it has ended
				peak <- last
				return
			}
			if _, err := fmt.Sscan(after, &last); err == nil {
				last <<= 10
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	return peak
}

// inMemory puts spool and receiver on a tmpfs if there is one: the test does not measure
// the disk.
func inMemory(t *testing.T, s *site) {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "rt-")
	if err != nil {
		t.Logf("on the disk: %v", err)
		return
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"spool", "received", "delivered"} {
		if err := os.RemoveAll(s.path(name)); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(dir, name), s.path(name)); err != nil {
			t.Fatal(err)
		}
	}
}
