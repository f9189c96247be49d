package cgroup

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// outOfMemory is how it is learned between two readings that a job nears its limit or
// has lost a process to it. In v2 the file memory.events changes at the limit, and
// memory.current is polled on the way. v1 writes to an eventfd that was given to
// cgroup.event_control: with a threshold of memory.usage_in_bytes, or together with
// memory.oom_control, for the group that is out of memory and all below it. That comes
// before the kernel has chosen whom to kill, so that the count of kills is looked at a
// few times after it. Anybody may ask for it; where the kernel has it no more, a kill
// is seen at the next reading.
//
// https://docs.kernel.org/admin-guide/cgroup-v1/memory.html section 10
type outOfMemory struct {
	fd    int // eventfd, -1 until it is needed and where it cannot be had
	off   bool
	looks int // that are to come

	near  int    // v1: eventfd of a threshold, as fd
	limit uint64 // that the threshold was made of
	poll  bool   // v2: memory.current is looked at every second

	max   uint64    // v2: of memory.events, as last seen
	told  int       // how often Short was told
	again time.Time // when it may be told again
}

const (
	oomLooks  = 6   // after each event, with pauses from 1 to 32 ms
	maxShort  = 100 // how often a job is said to be short of memory
	shortWait = time.Second
	pollEvery = time.Second
)

func (o *outOfMemory) close() {
	for _, fd := range [...]int{o.fd, o.near} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	o.fd, o.near, o.off, o.looks = -1, -1, true, 0
}

// pause is the time to the next look, 0 where none is to come.
func (o *outOfMemory) pause() time.Duration {
	switch {
	case o.looks > 0:
	case o.poll:
		return pollEvery
	default:
		return 0
	}
	return time.Millisecond << (oomLooks - o.looks)
}

// tellOOM asks the kernel to tell of an OOM in a directory of v1.
func (j *Job) tellOOM(n *node) {
	if n.oomTold || !n.oomControl.open {
		return
	}
	n.oomTold = true
	j.eventOf(&j.oom.fd, n.path, &n.oomControl, "")
}

// eventOf has the kernel write to an eventfd, which is made at first, when something
// happens to a file of a directory of v1. Where it refuses, nothing is told.
func (j *Job) eventOf(event *int, dir string, f *file, args string) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(f.fd, &fs); err != nil || fs.Type != unix.CGROUP_SUPER_MAGIC {
		return // a copy
	}
	if *event < 0 && !j.openEvent(event) {
		return
	}
	fd, err := unix.Open(filepath.Join(dir, "cgroup.event_control"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // the next reading sees it
	}
	_, _ = unix.Write(fd, fmt.Appendf(nil, "%d %d%s", *event, f.fd, args)) // refused: as above
	_ = unix.Close(fd)
}

// nearing has it told when the job comes near its limit, nine tenths of it: r was
// just read.
func (j *Job) nearing(r *rt.JobReading) {
	limit, ok := r.MemLimit.Get()
	used, read := r.MemCurrent.Get()
	if !ok || !read || limit == rt.Unlimited || limit == 0 {
		return
	}
	switch v := j.reader.(type) {
	case *v1Reader:
		if i := slices.IndexFunc(j.trees, func(t *tree) bool { return t.has("memory") }); i >= 0 && limit != j.oom.limit && v.memoryUsage.open {
			j.eventOf(&j.oom.near, j.trees[i].dir, &v.memoryUsage, fmt.Sprintf(" %d", limit/10*9))
		}
	case *v2Reader:
		j.oom.poll = used >= limit/10*7 && used < limit/10*9
	}
	j.oom.limit = limit
}

// pollMemory looks whether a job of v2 that is on its way has come near its limit.
func (j *Job) pollMemory() {
	v, ok := j.reader.(*v2Reader)
	if !ok || !j.oom.poll {
		return
	}
	if n, ok := j.buf.number(&v.memoryCurrent); !ok || n >= j.oom.limit/10*9 {
		j.oom.poll = false
		j.short()
	}
}

// openEvent makes an eventfd and has it waited for, beside the ends of processes.
func (j *Job) openEvent(event *int) bool {
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
	*event = fd
	return true
}

// eventTold says whether an event of epoll is one of an eventfd's, and takes it.
func (j *Job) eventTold(fd int) bool {
	var count [8]byte
	switch fd {
	case j.oom.fd: // before the kill, and when a directory goes
		j.oom.looks = oomLooks
	case j.oom.near: // from below or from above, and when the directory goes
		j.short()
	default:
		return false
	}
	_, _ = unix.Read(fd, count[:]) // it says only that something happened
	return true
}

// lookForKill looks whether somebody was killed since the kernel said that there was
// no memory, and reads all then.
func (j *Job) lookForKill() {
	if j.oom.looks == 0 {
		return
	}
	j.oom.looks--
	if len(j.trees) == 0 {
		j.oom.looks = 0
		return
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
		j.oom.looks = 0
		j.take()
		j.killed()
	}
}

// killed tells of a kill at once, also where the job was said to be short just now.
func (j *Job) killed() {
	j.oom.again = time.Time{}
	j.short()
}

// short tells that the job is short of memory.
func (j *Job) short() {
	now := time.Now()
	if j.phase != rt.JobPresent || j.oom.told >= maxShort || now.Before(j.oom.again) {
		return
	}
	j.oom.told++
	j.oom.again = now.Add(shortWait)
	j.emit(Short)
}
