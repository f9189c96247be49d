package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/internal/cgroupfs"
)

// poll is how often the directories are looked at that cannot be watched, because
// the user's inotify watches are used up or they may not be listed.
const poll = time.Second

// watch is the watcher's goroutine: one wait, one step, until Close.
func (j *Job) watch() {
	defer close(j.ended)
	defer j.survive()
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	j.thread.Store(int64(unix.Gettid()))
	var notices []notice
	for {
		for _, e := range j.step(notices) {
			if !j.send(e) {
				return
			}
		}
		var err error
		notices, err = j.next()
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			if !errors.Is(err, errWoken) {
				j.mu.Lock()
				j.failed(err)
				j.mu.Unlock()
			}
			return
		}
	}
}

// survive turns a fault of the watcher into an error of the job's, which is read
// from then on at the recorder's ticks alone.
func (j *Job) survive() {
	if p := recover(); p != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		err := fmt.Errorf("the watching of the job's cgroup panicked: %v", p)
		j.failed(err)
		j.note(rt.Event{Kind: "sensor", Name: "cgroup", Status: "failed", Detail: err.Error()})
	}
}

// send delivers e, or is false after Close. Nobody receiving must not keep the
// watcher from its readings, so that what can be is left out before the queue is full.
func (j *Job) send(e collect.JobEvent) bool {
	if (e == collect.JobStepEnded || e == collect.JobShort) && len(j.events) > cap(j.events)/2 {
		return true
	}
	for {
		select {
		case j.events <- e:
			return true
		case <-j.done:
			return false
		case f := <-j.errand.asked:
			f()
			j.errand.done <- struct{}{}
		}
	}
}

// step does what the notices ask for and returns the events to deliver. The
// reading comes before all else: the counters of a job can be gone 5 ms after the
// first of its directories.
func (j *Job) step(notices []notice) []collect.JobEvent {
	j.tell(notices)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.out = j.out[:0]
	there, kills := j.phase == rt.JobPresent, j.oomKills
	j.exited()
	if slices.ContainsFunc(notices, func(n notice) bool {
		return (n.removed() || n.modified() && !isMemoryEvents(n) && !isProcs(n)) && j.covers(filepath.Join(n.dir, n.name))
	}) {
		j.take()
		j.readEnding(notices)
	}
	j.lookForKill()
	j.pollMemory()
	for _, n := range notices {
		switch name := filepath.Join(n.dir, n.name); {
		case j.notify.stale(n):
		case n.overflow():
			j.missed()
			j.reconcile()
		case isMemoryEvents(n):
			j.memoryHappened(n.dir)
		case isProcs(n):
			j.came(filepath.Dir(n.dir))
		case n.modified():
			j.checkPopulated()
		case n.removed():
			if !j.covers(name) || !j.stands(name) {
				j.removed(name)
			}
		case n.created():
			j.created(name)
		case n.ignored():
			j.notify.forget(n)
			j.look()
		}
	}
	if len(notices) == 0 && j.blind {
		j.reconcile()
	}
	for j.notify.moved { // something was replaced under our hands
		j.notify.moved = false
		j.reconcile()
	}
	if there && j.oomKills > kills { // whatever was read for
		j.killed()
	}
	j.beginOthers()
	j.schedule(time.Now())
	return j.out
}

// schedule lets the job appear once its important controllers are there or were
// waited for long enough, and sets when the watcher looks again by itself.
func (j *Job) schedule(now time.Time) {
	if len(j.trees) > 0 && j.phase != rt.JobPresent {
		if j.settleBy.IsZero() {
			j.settleBy = now.Add(j.settle)
		}
		if !j.search.readable() && now.Before(j.settleBy) {
			j.deadline = j.settleBy
			return
		}
		j.appear()
	}
	j.settleBy, j.deadline = time.Time{}, time.Time{}
	if j.blind {
		j.deadline = now.Add(poll)
	}
	if at := j.oom.wake(now); !at.IsZero() && (j.deadline.IsZero() || at.Before(j.deadline)) {
		j.deadline = at
	}
}

// beginOthers tells others that a step may begin whose directories were not all
// noticed one by one.
func (j *Job) beginOthers() {
	if j.began && j.begins != nil {
		j.begins(j.daemons())
	}
	j.began = false
}

func (j *Job) appear() {
	j.phase = rt.JobPresent
	j.met.Store(true)
	j.cpusetLooks = cpusetLooks
	j.take()
	j.emit(collect.JobAppeared)
}

// emit queues e; two StepEnded in a row say no more than one.
func (j *Job) emit(e collect.JobEvent) {
	if n := len(j.out); e == collect.JobStepEnded && n > 0 && j.out[n-1] == collect.JobStepEnded {
		return
	}
	j.out = append(j.out, e)
}

// stepEnded tells that a step ended, which no longer lets Appeared wait.
func (j *Job) stepEnded() {
	if j.phase != rt.JobPresent {
		j.appear()
	}
	j.emit(collect.JobStepEnded)
}

// covers says whether path lies in the job's directories.
func (j *Job) covers(path string) bool {
	return slices.ContainsFunc(j.trees, func(t *tree) bool { return below(path, t.dir) })
}

// stands says whether a directory below the job's is there, and if it was taken in
// whether it is that one.
func (j *Job) stands(path string) bool {
	for _, t := range j.trees {
		if i := t.find(path); i >= 0 {
			return j.still(t.nodes[i])
		}
	}
	_, ok := directory(path)
	return ok
}

// still says whether a node's directory is there and the one that was taken in.
func (j *Job) still(n *node) bool {
	if n.wd == 0 {
		return n.dir.at(n.path)
	}
	return j.notify.still(n.path, n.wd)
}

// created takes in a directory that was made.
func (j *Job) created(path string) {
	for _, t := range j.trees {
		if path != t.dir && below(path, t.dir) {
			j.descend(t, path)
			j.opened = max(j.opened, 1)
			if strings.HasPrefix(filepath.Base(path), "step_") && t.find(path) < 0 {
				j.missed()
			}
			return
		}
	}
	j.lookFor(path)
}

// missed takes note that a step may have come and gone unseen.
func (j *Job) missed() {
	if j.reader != nil {
		j.reader.miss()
	}
}

// removed forgets a directory that is gone.
func (j *Job) removed(path string) {
	for _, t := range j.trees {
		switch {
		case path == t.dir:
			j.gone(t)
			return
		case below(path, t.dir):
			t.remove(path)
			j.endGroups()
			j.reader.leave(path)
			j.unwatchBelow(path)
			name := filepath.Base(path)
			if t == j.lead() && (strings.HasPrefix(name, "step_") || strings.HasPrefix(name, "task_")) {
				j.stepEnded()
			}
			return
		}
	}
	j.lookFor(path)
}

// lead is the hierarchy whose removals are told: all hierarchies of v1 lose the
// same directories.
func (j *Job) lead() *tree {
	return slices.MinFunc(j.trees, func(a, b *tree) int { return rank(a.controllers[0]) - rank(b.controllers[0]) })
}

// gone takes one hierarchy of the job away, whose directory was removed. With the
// last one the job has ended here.
func (j *Job) gone(t *tree) {
	j.unwatchBelow(t.dir)
	j.drop(t)
	j.endGroups()
	j.trees = slices.DeleteFunc(j.trees, func(o *tree) bool { return o == t })
	j.order = slices.DeleteFunc(j.order, func(o *tree) bool { return o == t })
	if len(j.trees) > 0 {
		j.partly(t)
		return
	}
	if j.phase != rt.JobPresent { // it came and went while it was waited for
		j.emit(collect.JobAppeared)
	}
	total := j.last
	total.AddEnded(&j.past)
	j.last, j.past = rt.JobReading{}, rt.JobReading{}
	j.oomKills, j.memoryNotices = 0, 0
	j.oom.limit, j.oom.max, j.oom.poll = 0, 0, false
	j.past.CarryOver(&total, totals)
	j.populated = false
	j.settleBy = time.Time{}
	j.emit(collect.JobEnded)
	j.again()
}

// partly keeps what was counted in a hierarchy of v1 whose directory is gone while
// others have the job's: the next step may come before they are removed, or one may be
// left behind, and it is looked for anew where it is gone.
func (j *Job) partly(t *tree) {
	p := &j.search.open[0]
	for _, c := range t.controllers {
		last, past := countedBy(c, &j.last), countedBy(c, &j.past)
		for i := range last {
			addTo(past[i], *last[i])
			last[i].Clear()
		}
		p.missing = append(slices.Clone(p.missing), p.all[slices.IndexFunc(p.all, func(a target) bool { return a.controller == c })])
	}
	if t.has("memory") {
		if p, ok := j.last.MemPeak.Get(); ok {
			j.past.MemPeak.Set(max(j.past.MemPeak.Or(0), p))
		}
		j.oomKills, j.oom.limit = 0, 0
	}
	j.look()
}

// drop closes all files of a hierarchy.
func (j *Job) drop(t *tree) {
	t.remove(t.dir)
	for _, c := range t.controllers {
		j.reader.drop(c)
		if c == cgroupfs.Unified {
			j.events2.close()
			j.events2 = file{}
		}
	}
}

func (j *Job) unwatchBelow(dir string) {
	for watched := range j.notify.byPath {
		if below(watched, dir) {
			j.notify.unwatch(watched)
		}
	}
}

// unwatched takes note of a watch that could not be set.
func (j *Job) unwatched(err error) {
	if err == nil {
		return
	}
	j.failed(err)
	if !j.blind {
		j.blind = true
		j.note(rt.Event{Kind: "sensor", Name: "cgroup watch", Status: "failed",
			Detail: fmt.Sprintf("%v; the job's directories are looked at every %s instead, and what a step used after the last look is not in its figures", err, poll)})
	}
}

// checkPopulated reads the v2 file cgroup.events: when the job's last process ends,
// "populated 1" becomes "populated 0". A suspended job stays populated.
func (j *Job) checkPopulated() {
	b, ok := j.buf.read(&j.events2)
	if !ok {
		return
	}
	v, ok := parseKey(b, "populated")
	if !ok {
		return
	}
	if j.populated && v == 0 {
		j.stepEnded()
	}
	j.populated = v != 0
}
