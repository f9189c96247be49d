package cgroup

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/resource-tracker/rt"
)

// maxMemoryNotices is how often the watcher looks whether a process was killed for
// its memory because memory.events said that something happened. A job that lives
// at its limit changes it a hundred times a second: from then on it is read with
// all else.
const maxMemoryNotices = 1000

// memoryEvents is the path of the job's file memory.events.
func memoryEvents(dir string) string { return filepath.Join(dir, "memory.events") }

// isMemoryEvents says whether a notice is of that file.
func isMemoryEvents(n notice) bool {
	return n.modified() && n.name == "" && filepath.Base(n.dir) == "memory.events"
}

// memoryHappened reads memory.events, and all else where a process was killed.
func (j *Job) memoryHappened(path string) {
	if j.memoryNotices++; j.memoryNotices > maxMemoryNotices {
		j.notify.unwatch(path)
		return
	}
	v, ok := j.reader.(*v2Reader)
	if !ok {
		return
	}
	if b, ok := j.buf.read(&v.memoryEvents); ok {
		if n, ok := parseKey(b, "max"); ok && n > j.oom.max {
			j.oom.max = n
			j.short(true)
		}
		if n, ok := parseKey(b, "oom_kill"); ok && n > j.oomKills {
			j.take()
			j.killed()
		}
	}
}

// tellKills tells the ledger of processes that were killed for their memory since
// the last reading: how many, of which step or task, at which limit.
func (j *Job) tellKills(r *rt.JobReading) {
	n := r.EventsOOMKill.Or(0)
	if n <= j.oomKills {
		return
	}
	killed := n - j.oomKills
	j.oomKills = n
	var where []string
	for _, g := range j.groups {
		g.read(&j.part, &j.buf)
		if now, before := g.r.EventsOOMKill.Or(0), g.kills; now > before {
			g.kills = now
			name := "step " + g.r.Step
			if task, ok := g.r.Task.Get(); ok {
				name = fmt.Sprintf("%s task %d", name, task)
			}
			where = append(where, fmt.Sprintf("%d in %s", now-before, name))
		}
	}
	detail := fmt.Sprintf("killed=%d total=%d", killed, n)
	if len(where) > 0 {
		detail += " (" + strings.Join(where, ", ") + ")"
	}
	for _, v := range [...]struct {
		name  string
		value rt.Opt[uint64]
	}{{"memory_limit_bytes", r.MemLimit}, {"memory_bytes", r.MemCurrent}, {"memory_peak_bytes", r.MemPeak}} {
		if n, ok := v.value.Get(); ok && n != rt.Unlimited {
			detail += fmt.Sprintf(" %s=%d", v.name, n)
		}
	}
	j.note(rt.Event{Kind: "job", Name: "oom_kill", Status: "killed", Detail: detail})
}
