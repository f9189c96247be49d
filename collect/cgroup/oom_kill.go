package cgroup

import (
	"fmt"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// MemoryEvents reads v2's memory.events after it changed. If hasKill is true, a process was
// killed for its memory, and the caller must read the job. If isUseless is true, the caller
// can stop watching the file. A job at its limit changes it a hundred times a second: after
// maxMemoryNews changes only the normal readings read it.
func (m *memoryMonitor) MemoryEvents(isPresent bool) (isNear, hasKill, isUseless bool) {
	m.news++
	if m.news > maxMemoryNews {
		return false, false, true
	}
	r := &m.scratch
	*r = rt.JobReading{}
	m.files.ReadMemoryEvents(r, m.buf)
	hasKill = r.EventsOOMKill.Or(0) > m.earlier+m.kills
	if n := r.EventsMax.Or(0); n > m.maxEvents {
		m.maxEvents = n
		isNear = isPresent && m.checkNear(true)
	}
	return isNear, hasKill, false
}

// Kills returns how many kills were logged.
func (m *memoryMonitor) Kills() uint64 { return m.kills }

// LogKills returns an event for the processes that were killed for their memory since the
// last call; ok is false if there are none. where returns their steps and tasks.
func (m *memoryMonitor) LogKills(r *rt.JobReading, where func() []string) (e rt.Event, ok bool) {
	n := r.EventsOOMKill.Or(0)
	if n <= m.kills {
		return rt.Event{}, false
	}
	detail := fmt.Sprintf("killed=%d total=%d", n-m.kills, n)
	m.kills = n
	if groups := where(); len(groups) > 0 {
		detail += " (" + strings.Join(groups, ", ") + ")"
	}
	for _, v := range [...]struct {
		name  string
		value rt.Opt[uint64]
	}{{"memory_limit_bytes", r.MemLimit}, {"memory_bytes", r.MemCurrent}, {"memory_peak_bytes", r.MemPeak}} {
		if n, ok := v.value.Get(); ok && n != rt.Unlimited {
			detail += fmt.Sprintf(" %s=%d", v.name, n)
		}
	}
	return rt.Event{Kind: "job", Name: "oom_kill", Status: "killed", Detail: detail}, true
}

// IsKillCheckDue reports whether the caller must read the count of kills now, because the kernel
// signalled an OOM. An event that wakes the watcher for another reason uses up none of these
// readings. isThere is false once no directory of the job is left.
func (m *memoryMonitor) IsKillCheckDue(isThere bool) bool {
	now := time.Now()
	if m.since.IsZero() || now.Before(m.next) {
		return false
	}
	waited := now.Sub(m.since)
	m.next = now.Add(max(time.Millisecond, waited))
	if waited >= killWait || !isThere {
		m.since = time.Time{}
	}
	return true
}

// CheckKills reports whether the count of kills has grown: the caller must then read the job.
func (m *memoryMonitor) CheckKills(kills uint64) bool {
	if kills <= m.earlier+m.kills {
		return false
	}
	m.since = time.Time{}
	return true
}

// ReportKill reports whether the caller must report a kill. A report that the job is near its limit
// does not delay it.
func (m *memoryMonitor) ReportKill() bool {
	now := time.Now()
	if m.isKillsOnly || !m.killReports.allows(now) {
		return false
	}
	m.killReports.use(now)
	m.nearReports.next = m.killReports.next
	return true
}
