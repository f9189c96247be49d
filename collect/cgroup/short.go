package cgroup

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
)

// outOfMemory is how it is learned between two readings that a job nears its limit or
// has lost a process to it. In v2 the file memory.events changes at the limit, and
// memory.current is polled on the way. v1 writes to an eventfd that was given to
// cgroup.event_control: with a threshold of memory.usage_in_bytes, or together with
// memory.oom_control, for the group that is out of memory and all below it. That comes
// before the kernel has chosen whom to kill, which on a busy machine takes a while, so
// that the count of kills is looked at a few times after it. Anybody may ask for it;
// where the kernel has it no more, a kill is seen at the next reading.
//
// https://docs.kernel.org/admin-guide/cgroup-v1/memory.html section 10
type outOfMemory struct {
	off   bool      // no eventfd is to be had
	kill  bell      // v1: of memory.oom_control
	since time.Time // when it rang, while the count of kills is looked at
	next  time.Time // when it is looked at again

	near  bell   // v1: of a threshold
	limit uint64 // that the threshold was made of
	poll  bool   // the job's memory is looked at every second

	max    uint64 // v2: of memory.events, as last seen
	nears  ration // of Short, for a job near its limit
	killed ration // of Short, for a kill
}

const (
	maxShort  = 100             // how often a job is said to be short of memory, and as often for kills
	killWait  = 2 * time.Second // for how long kills are looked for; each pause doubles that
	shortWait = time.Second
	pollEvery = time.Second
)

// bell is an eventfd that the kernel writes to.
type bell struct {
	fd    int  // -1 until it is needed and where it cannot be had
	rings int  // how often it woke the watcher
	more  int  // directories that ring it when they go
	over  bool // it is closed for good
}

// ration is how often Short is told for one of its reasons.
type ration struct {
	told  int
	again time.Time // when it may be told again
}

func (r *ration) left(now time.Time) bool { return r.told < maxShort && !now.Before(r.again) }

func (r *ration) use(now time.Time) { r.told, r.again = r.told+1, now.Add(shortWait) }

func newOutOfMemory() outOfMemory { return outOfMemory{kill: bell{fd: -1}, near: bell{fd: -1}} }

func (o *outOfMemory) close() {
	o.kill.close()
	o.near.close()
	o.off, o.since = true, time.Time{}
}

func (b *bell) close() {
	if b.fd >= 0 {
		_ = unix.Close(b.fd)
	}
	b.fd, b.over = -1, true
}

// wake is when the watcher looks by itself, the zero time where it need not.
func (o *outOfMemory) wake(now time.Time) time.Time {
	switch {
	case !o.since.IsZero():
		return o.next
	case o.poll:
		return now.Add(pollEvery)
	}
	return time.Time{}
}

// tellOOM asks the kernel to tell of an OOM in a directory of v1.
func (j *Job) tellOOM(n *node) {
	if n.oomTold || !n.oomControl.open {
		return
	}
	n.oomTold = true
	j.oom.kill.more++
	j.eventOf(&j.oom.kill, n.path, &n.oomControl, "")
}

// eventOf has the kernel write to an eventfd, which is made at first, when something
// happens to a file of a directory of v1. Where it refuses, nothing is told.
func (j *Job) eventOf(b *bell, dir string, f *file, args string) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(f.fd, &fs); err != nil || fs.Type != unix.CGROUP_SUPER_MAGIC {
		return // a copy
	}
	if b.over || b.fd < 0 && !j.hang(b) {
		return
	}
	fd, err := unix.Open(filepath.Join(dir, "cgroup.event_control"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // the next reading sees it
	}
	_, _ = unix.Write(fd, fmt.Appendf(nil, "%d %d%s", b.fd, f.fd, args)) // refused: as above
	_ = unix.Close(fd)
}

// hang makes an eventfd and has it waited for, beside the ends of processes.
func (j *Job) hang(b *bell) bool {
	if j.oom.off || j.exits.fd < 0 {
		return false
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		in := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
		if err = unix.EpollCtl(j.exits.fd, unix.EPOLL_CTL_ADD, fd, &in); err != nil {
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		j.oom.off = true
		return false
	}
	b.fd = fd
	return true
}

// eventTold says whether an event of epoll is one of an eventfd's, and takes it.
func (j *Job) eventTold(fd int) bool {
	switch fd {
	case j.oom.kill.fd: // before the kill, and when a directory goes
		j.oom.since = time.Now()
		j.oom.next = j.oom.since
		j.rang(&j.oom.kill)
	case j.oom.near.fd: // from below or from above, and when the directory goes
		j.short(false)
		j.rang(&j.oom.near)
	default:
		return false
	}
	return true
}

// rang silences a bell. One that has rung too often, as that of a job that is killed
// for its memory over and over, or that swings about its limit, is heard no more: the
// readings go on seeing it.
func (j *Job) rang(b *bell) {
	var count [8]byte
	_, _ = unix.Read(b.fd, count[:]) // it says only that something happened
	b.rings++
	if b.rings > maxMemoryNotices+b.more || b == &j.oom.near && j.oom.nears.told >= maxShort {
		_ = unix.EpollCtl(j.exits.fd, unix.EPOLL_CTL_DEL, b.fd, nil) // it is closed now
		b.close()
	}
}

// nearing has it told when the job comes near its limit: r was just read. Of v1 the
// kernel tells, but once, and by all of its memory, so that one with page cache in the
// way is looked at from then on.
func (j *Job) nearing(r *rt.JobReading) {
	limit, ok := r.MemLimit.Get()
	used, read := r.MemCurrent.Get()
	if j.calm || !ok || !read || limit == rt.Unlimited || limit == 0 {
		return
	}
	v, v1 := j.reader.(*v1Reader)
	if v1 && limit != j.oom.limit && v.memoryUsage.open {
		if i := slices.IndexFunc(j.trees, func(t *tree) bool { return t.has("memory") }); i >= 0 {
			j.eventOf(&j.oom.near, j.trees[i].dir, &v.memoryUsage, fmt.Sprintf(" %d", limit/10*9))
		}
	}
	j.oom.limit = limit
	full, own := used >= limit/10*9, held(r)
	j.oom.poll = own >= limit/10*7 && (full || !v1) && !(full && own >= limit/10*8) && j.oom.nears.told < maxShort
}

// held is what the job has without the page cache, which the kernel takes back before
// it kills anybody. Where that cannot be told from shared memory it counts.
func held(r *rt.JobReading) uint64 {
	used, file, shared := r.MemCurrent.Or(0), r.File.Or(0), r.Shmem.Or(0)
	if !r.Shmem.Valid() {
		return used
	}
	return used - min(used, file-min(file, shared))
}

// pollMemory looks whether a job that is on its way has come near its limit.
func (j *Job) pollMemory() {
	if j.oom.poll {
		j.short(false)
	}
}

// lookForKill looks whether somebody was killed since the kernel said that there was
// no memory, and reads all then. What else wakes the watcher uses up none of its looks.
func (j *Job) lookForKill() {
	now := time.Now()
	if j.oom.since.IsZero() || now.Before(j.oom.next) {
		return
	}
	waited := now.Sub(j.oom.since)
	j.oom.next = now.Add(max(time.Millisecond, waited))
	if waited >= killWait || len(j.trees) == 0 {
		j.oom.since = time.Time{}
	}
	kills := uint64(0)
	for _, t := range j.trees {
		kills += t.oom.Or(0)
		for _, n := range t.nodes {
			if b, ok := j.buf.read(&n.oomControl); ok {
				v, _ := parseKey(b, "oom_kill")
				kills += v
			}
		}
	}
	if kills > j.oomKills {
		j.oom.since = time.Time{}
		j.take()
	}
}

// killed tells of a kill, also where the job was said to be short just now.
func (j *Job) killed() {
	now := time.Now()
	if j.calm || j.phase != rt.JobPresent || !j.oom.killed.left(now) {
		return
	}
	j.oom.killed.use(now)
	j.oom.nears.again = j.oom.killed.again
	j.emit(collect.JobShort)
}

// short tells that the job is short of memory: at nine tenths of its limit with eight
// that are not page cache, or, where it has hit a limit without that, at a step's.
func (j *Job) short(hit bool) {
	now := time.Now()
	if j.calm || j.phase != rt.JobPresent || !j.oom.nears.left(now) {
		return
	}
	full, ok := j.full()
	if !full && !hit {
		return
	}
	if full && !ok {
		j.oom.poll = true // the next reading knows how long that is of use
		j.oom.nears.again = now.Add(shortWait)
		return
	}
	j.oom.poll = false
	j.oom.nears.use(now)
	j.emit(collect.JobShort)
}

// full says whether the job's memory is near its limit, and then whether what it holds
// is too.
func (j *Job) full() (full, holding bool) {
	var current, stat *file
	var parse func([]byte, *rt.JobReading)
	switch v := j.reader.(type) {
	case *v1Reader:
		current, stat, parse = &v.memoryUsage, &v.memoryStat, parseMemoryStatV1
	case *v2Reader:
		current, stat, parse = &v.memoryCurrent, &v.memoryStat, parseMemoryStat
	default:
		return false, false
	}
	n, ok := j.buf.number(current)
	if !ok || j.oom.limit == 0 || n < j.oom.limit/10*9 {
		return false, false
	}
	r := &j.part
	*r = rt.JobReading{}
	r.MemCurrent.Set(n)
	if b, ok := j.buf.read(stat); ok {
		parse(b, r)
	}
	return true, held(r) >= j.oom.limit/10*8
}
