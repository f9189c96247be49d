package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

func newMonitor(t *testing.T) *memoryMonitor {
	e := newEpoll()
	m := newMemoryMonitor(e, false, &procfile.Buffer{})
	t.Cleanup(e.Close)
	t.Cleanup(m.Close)
	return m
}

// signal writes to an eventfd as the kernel does.
func signal(t *testing.T, m *memoryMonitor, e *eventfd) {
	t.Helper()
	if _, err := unix.Write(e.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if _, isOwn := m.Signalled(e.fd, false); !isOwn {
		t.Error("the descriptor is not the memoryMonitor's")
	}
}

// TestEventfdsAreBounded: an eventfd that is signalled too often is closed. The signals of
// removed directories do not count.
func TestEventfdsAreBounded(t *testing.T) {
	m := newMonitor(t)
	if !m.open(&m.oom) || !m.open(&m.near) {
		t.Fatal("eventfd cannot be made")
	}
	m.oom.removals = 5
	for range maxMemoryNews + 5 {
		signal(t, m, &m.oom)
	}
	if m.since.IsZero() || m.oom.fd < 0 {
		t.Errorf("kills are looked for since %s, descriptor %d", m.since, m.oom.fd)
	}
	signal(t, m, &m.oom)
	if m.oom.fd >= 0 || !m.oom.isClosed {
		t.Error("the eventfd of kills is still open")
	}
	signal(t, m, &m.near)
	if m.near.fd < 0 {
		t.Error("the threshold was closed after its first signal")
	}
	m.nearReports.reports = maxSnapshots
	signal(t, m, &m.near)
	if m.near.fd >= 0 || !m.near.isClosed {
		t.Error("the threshold is still open")
	}
	if m.open(&m.near) {
		t.Error("it was opened again")
	}
	if _, isOwn := m.Signalled(1<<20, true); isOwn {
		t.Error("a foreign descriptor is the memoryMonitor's")
	}
}

// TestKillIsLookedForLongAfterTheSignal: on a busy machine the kernel signals that there is no memory
// long before it has chosen which process to kill.
func TestKillIsLookedForLongAfterTheSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMonitor(t)
		if !m.open(&m.oom) {
			t.Fatal("eventfd cannot be made")
		}
		for _, after := range []time.Duration{0, 700 * time.Millisecond, killWait} {
			signal(t, m, &m.oom)
			signalled, logged := time.Now(), m.Kills()
			for range 100 {
				if m.IsKillCheckDue(true) && m.CheckKills(logged) {
					t.Error("a kill was found that did not happen")
				}
			}
			looks, kills := 0, logged
			for ; !m.Wake(time.Now()).IsZero(); looks++ {
				time.Sleep(time.Until(m.Wake(time.Now())))
				if time.Since(signalled) >= after {
					kills = logged + 1
				}
				if m.IsKillCheckDue(true) && m.CheckKills(kills) {
					r := rt.JobReading{EventsOOMKill: rt.Some(kills)}
					if e, ok := m.LogKills(&r, func() []string { return []string{"1 in step 0"} }); !ok || e.Detail != fmt.Sprintf("killed=1 total=%d (1 in step 0)", kills) {
						t.Errorf("logged %+v", e)
					}
				}
			}
			if m.Kills() != logged+1 || looks > 15 || !m.ReportKill() {
				t.Errorf("%s after the signal: %d kills, want %d; %d looks", after, m.Kills(), logged+1, looks)
			}
			time.Sleep(reportEvery)
		}
	})
}

// TestPageCacheIsReadNearTheLimitOnly: memory.stat of a job far from its limit is not read.
func TestPageCacheIsReadNearTheLimitOnly(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"memory.current": "300\n", "memory.stat": "file 200\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := newMonitor(t)
	files := newJobFiles(2, nil, "")
	defer files.Close()
	if err := files.Open("", dir); err != nil {
		t.Fatal(err)
	}
	m.SetFiles(files, 2)
	m.Update(&rt.JobReading{MemLimit: rt.Some[uint64](1000), MemCurrent: rt.Some[uint64](800)}, "")
	if !m.isPolling || m.Poll(true) || !m.nearReports.next.IsZero() {
		t.Errorf("polling %t, next report %s", m.isPolling, m.nearReports.next)
	}
}
