package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/internal/procfile"
)

// state holds what the lock of a Job protects.
type state struct {
	watch     *watcher
	epoll     *epoll // the ends of processes, and the kernel's eventfds
	tasks     *taskSet
	pressure  *memoryMonitor
	callbacks *callbacks
	ledger

	version  int // of the cgroup interface; 0 before the job was found
	newFiles func(version int) *counterFiles
	files    *counterFiles // of the job, nil before it was found
	buf      procfile.Buffer
	toReopen int // number of readings that still try to open the missing files again
	readings
	cpuset cpusetLog
	population

	phase     rt.JobPhase
	wasFound  atomic.Bool        // the job's cgroup existed once; read without the lock
	timing                       // of the watcher
	isBlind   bool               // a directory could not be watched; see poll
	hasNewDir bool               // a directory was entered since the last call of takeNewDirs
	out       []collect.JobEvent // the events that the watcher delivers next
}

// population records whether the job has processes. It is used with v2 only.
type population struct {
	processes   procfile.File // cgroup.events of the job
	isPopulated bool          // at the last reading
}

// timing holds the times at which the watcher checks the job without an event.
type timing struct {
	settle   time.Duration // Options.Settle
	settleBy time.Time     // until when JobAppeared waits for further controllers; zero for no wait
	deadline time.Time     // of the watcher's next wait; zero for none
}

// ledger holds the events that happened and the first failure.
type ledger struct {
	notes      []rt.Event
	missedStep string // the last step with a directory that was removed before it was entered
	err        error  // the first reason why a part of the cgroup could not be opened or watched
}

// Note keeps an event for the run's ledger.
func (l *ledger) Note(e rt.Event) {
	e.Time = time.Now()
	l.notes = append(l.notes, e)
}

// noteMissedStep notes that the end of a step was missed. In v1 a step has several directories; they
// give one event.
func (l *ledger) noteMissedStep(step string) {
	if step != l.missedStep {
		l.missedStep = step
		l.Note(missedEnd(step))
	}
}

// Failed keeps the first error of opening or watching. It ignores nil and os.ErrClosed.
func (l *ledger) Failed(err error) {
	if err != nil && l.err == nil && !errors.Is(err, os.ErrClosed) {
		l.err = err
	}
}

// close closes all descriptors.
func (s *state) close() error {
	err := s.watch.Close()
	s.tasks.Close()
	if s.files != nil {
		s.files.Close()
	}
	s.pressure.Close()
	s.epoll.Close()
	s.processes.Retire()
	return err
}

// found adds and scans dir, which is the job's directory in the hierarchy of a controller. It returns false if dir
// was removed meanwhile.
func (s *state) found(version int, controller, dir string) bool {
	if s.files == nil {
		s.version, s.files = version, s.newFiles(version)
		s.pressure.SetFiles(s.files, version)
	}
	s.tasks.AddHierarchy(dir)
	if !s.watch.AddRoot(dir) {
		s.tasks.Leave(dir, dir)
		return false
	}
	s.tasks.AddController(dir, controller)
	s.tasks.EachDirectory(dir, s.pressure.WatchOOM)
	s.toReopen = 4
	s.watchFailed(s.files.Open(controller, dir), false)
	if controller == cgroupfs.Unified {
		events := filepath.Join(dir, "cgroup.events")
		s.WatchFile(events)
		s.WatchFile(filepath.Join(dir, memoryEvents))
		s.watchFailed(openFile(&s.processes, events), false)
		s.checkPopulated()
	}
	return true
}

// enter adds path, which has just been given a watch. path is root, the job's directory, or a directory below it.
func (s *state) enter(root, path string) {
	d := s.locate(root, path)
	s.pressure.WatchOOM(path, s.tasks.Enter(s.version, root, path, d))
	s.hasNewDir = true
	switch {
	case path == root:
		s.watchFailed(s.files.EnterJob(path, &s.buf), false)
	case d.Step != "":
		events, err := s.files.EnterStep(path, d)
		s.watchFailed(err, false)
		if events != "" {
			s.WatchFile(events)
		}
	}
}

// locate returns the step and task of path, a directory below root. root is the job's directory.
func (s *state) locate(root, path string) cgroupfs.Dir {
	if path == root {
		return cgroupfs.Dir{}
	}
	d := s.callbacks.layout.Locate(path[len(root)+1:])
	if d.Step != "" {
		d.StepDir = filepath.Join(root, d.StepDir)
	}
	return d
}

// WatchFile makes the watcher report writes to a file.
func (s *state) WatchFile(path string) { s.watchFailed(s.watch.WatchFile(path), true) }

// poll is how long the watcher waits for a notice before it calls reconcile, while a directory cannot
// be watched. The user's inotify watches may be used up, for example.
const poll = time.Second

// watchFailed records an error of a directory or one of its files, and ignores nil. isUnwatched means that it
// cannot be watched. Otherwise it cannot be listed or opened.
func (s *state) watchFailed(err error, isUnwatched bool) {
	if err == nil {
		return
	}
	s.ledger.Failed(err)
	if isUnwatched && !s.isBlind {
		s.isBlind = true
		s.Note(rt.Event{Kind: "sensor", Name: "cgroup watch", Status: "failed",
			Detail: fmt.Sprintf("%v; the job's directories are checked every %s instead, and the figures of a step do not include what it used after the last check", err, poll)})
	}
}

// ready handles a readable descriptor of epoll: an eventfd or a process that has ended. It removes any other
// descriptor from epoll.
func (s *state) ready(fd int) {
	isNear, isOwn := s.pressure.Signalled(fd, s.isPresent())
	switch {
	case isNear:
		s.emit(collect.JobNearLimit)
	case isOwn, s.tasks.ProcessExited(fd):
	default:
		s.epoll.Remove(fd)
	}
}

func (s *state) isPresent() bool { return s.phase == rt.JobPresent }

// schedule calls appear when the controllers of CPU time and memory exist or Options.Settle
// has passed. It sets the deadline: the time at which the watcher continues without an event.
func (s *state) schedule(now time.Time) {
	if s.tasks.Len() > 0 && !s.isPresent() {
		if s.settleBy.IsZero() {
			s.settleBy = now.Add(s.settle)
		}
		if !s.watch.IsReadable() && now.Before(s.settleBy) {
			s.deadline = s.settleBy
			return
		}
		s.appear()
	}
	s.settleBy, s.deadline = time.Time{}, time.Time{}
	if s.isBlind {
		s.deadline = now.Add(poll)
	}
	at := s.pressure.Wake(now)
	isFirst := s.deadline.IsZero() || at.Before(s.deadline)
	if !at.IsZero() && isFirst {
		s.deadline = at
	}
}

func (s *state) appear() {
	s.phase = rt.JobPresent
	s.wasFound.Store(true)
	s.cpuset.looks = cpusetLooks
	s.ReadJob()
	s.emit(collect.JobAppeared)
}

// emit queues e. It drops a JobStepEnded that follows another one.
func (s *state) emit(e collect.JobEvent) {
	if n := len(s.out); e == collect.JobStepEnded && n > 0 && s.out[n-1] == e {
		return
	}
	s.out = append(s.out, e)
}

// stepEnded queues JobStepEnded. If JobAppeared still waits for controllers, it goes first.
func (s *state) stepEnded() {
	if !s.isPresent() {
		s.appear()
	}
	s.emit(collect.JobStepEnded)
}

// memoryChanged handles a change of the v2 file memory.events in the directory path.
func (s *state) memoryChanged(path string) {
	isNear, hasKill, isUseless := s.pressure.MemoryEvents(s.isPresent())
	if isUseless {
		s.watch.Unwatch(path)
	}
	if isNear {
		s.emit(collect.JobNearLimit)
	}
	if hasKill {
		s.ReadJob()
		s.reportKill()
	}
}

// memoryEvents is the v2 file that changes when the job reaches its memory limit.
const memoryEvents = "memory.events"

// checkMemory looks for kills after the kernel has signalled an OOM. It also polls the memory limit.
func (s *state) checkMemory() {
	if s.pressure.IsKillCheckDue(s.tasks.Len() > 0) && s.pressure.CheckKills(s.tasks.OOMKillsV1()) {
		s.ReadJob()
	}
	if s.pressure.Poll(s.isPresent()) {
		s.emit(collect.JobNearLimit)
	}
}

func (s *state) reportKill() {
	if s.isPresent() && s.pressure.ReportKill() {
		s.emit(collect.JobNearLimit)
	}
}

// checkPopulated reads the v2 file cgroup.events: when the job's last process ends,
// "populated 1" becomes "populated 0". A suspended job stays populated.
func (s *state) checkPopulated() {
	n, ok := readKey(&s.processes, &s.buf, "populated")
	if !ok {
		return
	}
	if s.isPopulated && n == 0 {
		s.stepEnded()
	}
	s.isPopulated = n != 0
}

// created handles the creation of the directory path. If path is not in the job's directories, one of them may be
// created below it.
func (s *state) created(path string) {
	root, ok := s.watch.RootOf(path)
	if !ok || path == root {
		s.watch.LookFor(path)
		return
	}
	s.watch.Scan(root, path)
	s.toReopen = max(s.toReopen, 1)
	d := s.locate(root, path)
	isMissed := d.Part == cgroupfs.PartStep && !s.watch.IsKnown(path)
	if isMissed {
		s.missStep(d.Step)
	}
}

// missStep records that a step ended before its cgroup could be entered.
func (s *state) missStep(step string) {
	s.files.MissStep()
	s.noteMissedStep(step)
	s.tasks.IsEndMissed = true
}

// removed handles the removal of the directory path.
func (s *state) removed(path string) {
	root, ok := s.watch.RootOf(path)
	switch {
	case !ok:
		s.watch.LookFor(path)
	case path == root:
		s.rootRemoved(root)
	default:
		d := s.locate(root, path)
		isKnownStep := d.Part == cgroupfs.PartStep && s.watch.IsKnown(path)
		hadGroup := s.tasks.Leave(root, path)
		if isKnownStep && !hadGroup {
			s.missStep(d.Step)
		}
		s.files.LeaveStep(path)
		s.watch.Remove(path)
		isEnd := d.Part == cgroupfs.PartStep || d.IsTaskDir()
		if isEnd && root == s.tasks.Lead() {
			s.stepEnded()
		}
	}
}

// rootRemoved forgets one hierarchy of the job. When the last one is
// removed, the job has ended on this node.
func (s *state) rootRemoved(root string) {
	controllers := slices.Clone(s.tasks.Controllers(root))
	s.watch.Remove(root)
	s.tasks.Leave(root, root)
	for _, c := range controllers {
		s.files.Drop(c)
	}
	if s.tasks.Len() > 0 {
		s.carryControllers(controllers)
		for _, c := range controllers {
			s.watch.LookForController(c)
		}
		if slices.Contains(controllers, "memory") {
			s.pressure.Reset(false)
		}
		s.watch.Look()
		return
	}
	if !s.isPresent() { // it began and ended while JobAppeared waited
		s.emit(collect.JobAppeared)
	}
	if s.tasks.IsEndMissed {
		s.Note(rt.Event{Kind: "job", Name: "end", Status: "estimated",
			Detail: "the end of the job's last step was not read: the CPU time and the memory of the job are from the reading before, a lower bound"})
	}
	s.carryJob()
	s.pressure.Reset(true)
	s.processes.Retire()
	s.processes, s.isPopulated = procfile.File{}, false
	s.settleBy = time.Time{}
	s.emit(collect.JobEnded)
	s.phase = rt.JobGone
	s.wasFound.Store(true)
	s.watch.LookAgain()
}

// reconcile compares the known directories with those that exist, after events were lost.
func (s *state) reconcile() {
	for _, root := range slices.Clone(s.watch.Roots()) {
		s.watch.FollowParent(root) // before root is checked: the watch of the parent reports the removal of root
		s.ReadJob()
		if s.callbacks.ends != nil {
			s.callbacks.ends("", s.tasks.Daemons(nil))
		}
		for _, path := range s.watch.Below(root) {
			if s.watch.IsKnown(path) && !s.watch.Exists(path) {
				s.removed(path)
			}
		}
		if slices.Contains(s.watch.Roots(), root) {
			s.watch.Scan(root, root)
			s.checkPopulated()
		}
	}
	s.tasks.MatchAgain()
	s.watch.Look()
}

// cpusetLooks is how many of the job's first readings also read its CPUs. The resource manager sets
// the CPUs a moment after it has created the directory.
const cpusetLooks = 5

// cpusetLog holds the CPUs and NUMA nodes of the job that were logged.
type cpusetLog struct {
	looks   int // how many of the next readings also read them
	allowed string
}

// logCPUSet logs which CPUs and NUMA nodes the job may use, as the kernel lists them
// ("0-3,8"). It logs again if one of the first readings differs.
func (s *state) logCPUSet() {
	if s.cpuset.looks == 0 {
		return
	}
	s.cpuset.looks--
	dir, suffix := s.tasks.DirOf("cpuset"), ""
	if s.version == 2 {
		dir, suffix = s.tasks.DirOf(cgroupfs.Unified), ".effective"
	}
	if dir == "" {
		return
	}
	cpus, mems := procfile.Text(dir, "cpuset.cpus"+suffix), procfile.Text(dir, "cpuset.mems"+suffix)
	allowed := "cpus=" + cpus + " mems=" + mems
	if cpus != "" && allowed != s.cpuset.allowed {
		s.cpuset.allowed = allowed
		s.Note(rt.Event{Kind: "job", Name: "cpuset", Status: "ok", Detail: allowed})
	}
}
