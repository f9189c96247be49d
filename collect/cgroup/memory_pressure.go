package cgroup

import (
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

const (
	maxSnapshots  = 100             // maximum number of reports of each kind: near the limit, and kills
	reportEvery   = time.Second     // minimum time between two reports of the same kind
	killWait      = 2 * time.Second // how long the count of kills is read again and again, with pauses that double
	pollEvery     = time.Second
	maxMemoryNews = 1000 // see memoryMonitor.MemoryEvents
)

// memoryMonitor watches a job's memory between two readings. It reports that the job is near its limit, and OOM kills
// of its processes.
//
// With v2 the file memory.events changes at the limit; before that memory.current is
// polled. With v1 the kernel signals an eventfd that was registered with
// cgroup.event_control, for a threshold of memory.usage_in_bytes or for memory.oom_control.
// The kernel signals oom_control for the cgroup that is out of memory and all cgroups below
// it, before it has chosen a process to kill. On a busy machine that takes a while, so the
// memoryMonitor reads the count of kills several times. Every user may register an eventfd. If
// the kernel does not support it, the next reading finds the kill.
//
// https://docs.kernel.org/admin-guide/cgroup-v1/memory.html section 10
type memoryMonitor struct {
	buf         *procfile.Buffer
	scratch     rt.JobReading
	epoll       *epoll
	isKillsOnly bool // NearLimit is not reported

	files   *counterFiles // of the job, nil before it is found
	version int

	noEventfd bool
	oom       eventfd   // v1: of memory.oom_control
	since     time.Time // when oom was signalled, while the count of kills is read
	next      time.Time // when it is read again

	near      eventfd // v1: of a threshold
	limit     uint64  // the limit that the threshold was computed from
	isPolling bool    // the job's memory is read every pollEvery

	news        int       // events of memory.events that were read
	maxEvents   uint64    // v2: "max" of memory.events, as last seen
	kills       uint64    // that were logged
	earlier     uint64    // kills before the job began, see SetEarlier
	nearReports rateLimit // of a job near its limit
	killReports rateLimit // of kills
}

// eventfd is an eventfd that the kernel signals.
type eventfd struct {
	fd       int  // -1 before it is needed and if it cannot be created
	signals  int  // how often it woke the watcher
	removals int  // directories that signal it when they are removed
	isClosed bool // for good
}

// rateLimit limits how often something is reported.
type rateLimit struct {
	reports int
	next    time.Time // when it may be reported again
}

func (r *rateLimit) allows(now time.Time) bool {
	return r.reports < maxSnapshots && !now.Before(r.next)
}

func (r *rateLimit) use(now time.Time) { r.reports, r.next = r.reports+1, now.Add(reportEvery) }

// newMemoryMonitor returns the memoryMonitor of a job that is not found yet. With killsOnly it reports
// only OOM kills.
func newMemoryMonitor(epoll *epoll, killsOnly bool, buf *procfile.Buffer) *memoryMonitor {
	return &memoryMonitor{buf: buf, epoll: epoll, isKillsOnly: killsOnly, oom: eventfd{fd: -1}, near: eventfd{fd: -1}}
}

// SetFiles sets the files of the job after it was found.
func (m *memoryMonitor) SetFiles(files *counterFiles, version int) {
	m.files, m.version = files, version
}

// SetEarlier sets how many processes the kernel had killed in the job's directories before the job
// began, and how often their limit was reached. MemoryEvents and CheckKills count without them.
func (m *memoryMonitor) SetEarlier(kills, limitHits uint64) {
	m.earlier, m.maxEvents = kills, limitHits
}

// Reset clears the limit and the counts after a cgroup was removed: the whole job, or only
// its directory in v1's memory hierarchy.
func (m *memoryMonitor) Reset(isWhole bool) {
	m.kills, m.earlier, m.limit = 0, 0, 0
	if isWhole {
		m.news, m.maxEvents, m.isPolling = 0, 0, false
	}
}

// Close closes all descriptors.
func (m *memoryMonitor) Close() {
	m.oom.close()
	m.near.close()
	m.noEventfd, m.since = true, time.Time{}
}

func (e *eventfd) close() {
	if e.fd >= 0 {
		_ = unix.Close(e.fd)
	}
	e.fd, e.isClosed = -1, true
}

// Wake returns the time at which the watcher must check the job's memory, zero for never.
func (m *memoryMonitor) Wake(now time.Time) time.Time {
	switch {
	case !m.since.IsZero():
		return m.next
	case m.isPolling:
		return now.Add(pollEvery)
	}
	return time.Time{}
}

// WatchOOM requests a signal for an OOM in a v1 directory.
func (m *memoryMonitor) WatchOOM(path string, d *directoryFiles) {
	if d.IsOOMWatched || !d.OOMControl.IsOpen() {
		return
	}
	d.IsOOMWatched = true
	m.oom.removals++
	m.register(&m.oom, path, &d.OOMControl, "")
}

// register requests a signal of e for an event of the file f in a v1 directory, and creates
// the eventfd if necessary. If the kernel refuses, nothing is signalled.
func (m *memoryMonitor) register(e *eventfd, dir string, f *procfile.File, args string) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(f.Fd(), &fs); err != nil || fs.Type != unix.CGROUP_SUPER_MAGIC {
		return // a copy
	}
	if e.fd < 0 && !m.open(e) {
		return
	}
	fd, err := unix.Open(filepath.Join(dir, "cgroup.event_control"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // the next reading sees it
	}
	_, _ = unix.Write(fd, fmt.Appendf(nil, "%d %d%s", e.fd, f.Fd(), args)) // refused: as above
	_ = unix.Close(fd)
}

// open creates an eventfd and adds it to the epoll.
func (m *memoryMonitor) open(e *eventfd) bool {
	if m.noEventfd || e.isClosed {
		return false
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		m.noEventfd = true
		return false
	}
	if err := m.epoll.Add(fd); err != nil {
		_ = unix.Close(fd)
		m.noEventfd = true
		return false
	}
	e.fd = fd
	return true
}

// Signalled handles the signal of a descriptor. isOwn is false if it is not an eventfd of the
// memoryMonitor. isNear says whether to report NearLimit.
func (m *memoryMonitor) Signalled(fd int, isPresent bool) (isNear, isOwn bool) {
	switch fd {
	case m.oom.fd: // before the kill, and when a directory is removed
		m.since = time.Now()
		m.next = m.since
		m.drain(&m.oom, false)
	case m.near.fd: // from below or from above, and when the directory is removed
		isNear = isPresent && m.checkNear(false)
		m.drain(&m.near, m.nearReports.reports >= maxSnapshots)
	default:
		return false, false
	}
	return isNear, true
}

// drain resets an eventfd. It closes an eventfd that is not needed or was signalled too
// often: OOM kills repeat, or memory use crosses the threshold again and again. The
// readings still show these events.
func (m *memoryMonitor) drain(e *eventfd, isUseless bool) {
	var count [8]byte
	_, _ = unix.Read(e.fd, count[:]) // the count has no meaning
	e.signals++
	if isUseless || e.signals > maxMemoryNews+e.removals {
		m.epoll.Remove(e.fd)
		e.close()
	}
}

// Update decides from a reading of the job how to detect NearLimit until the next reading.
// v1 signals the threshold once, and its count includes the page cache. If the signal was
// caused by page cache, the memoryMonitor polls from then on. dir is the job's directory in v1's
// memory hierarchy.
func (m *memoryMonitor) Update(r *rt.JobReading, dir string) {
	limit, hasLimit := r.MemLimit.Get()
	used, isRead := r.MemCurrent.Get()
	isLimited := hasLimit && limit != rt.Unlimited && limit != 0
	if m.isKillsOnly || !isLimited || !isRead {
		return
	}
	isV1 := m.version == 1
	if isV1 && limit != m.limit && m.files.UsageFile().IsOpen() && dir != "" {
		m.register(&m.near, dir, m.files.UsageFile(), fmt.Sprintf(" %d", limit/10*9))
	}
	m.limit = limit
	own := withoutPageCache(r)
	isFull := used >= limit/10*9
	isWaiting := isV1 && !isFull              // for the threshold
	isReported := isFull && own >= limit/10*8 // checkNear has reported it
	m.isPolling = own >= limit/10*7 && !isWaiting && !isReported && m.nearReports.reports < maxSnapshots
}

// withoutPageCache returns the job's memory without the page cache, which the kernel reclaims
// before it kills a process. If the page cache cannot be distinguished from shared memory, it
// is included.
func withoutPageCache(r *rt.JobReading) uint64 {
	used, file, shared := r.MemCurrent.Or(0), r.File.Or(0), r.Shmem.Or(0)
	if !r.Shmem.Valid() {
		return used
	}
	return used - min(used, file-min(file, shared))
}

// Poll checks a polled job. It returns true if the job is near its limit now.
func (m *memoryMonitor) Poll(isPresent bool) (isNear bool) {
	return m.isPolling && isPresent && m.checkNear(false)
}

// checkNear reports whether the job uses at least 90 % of its limit, and at least 80 %
// without page cache. isLimitHit means that the kernel reported a limit as reached. If the
// job uses less, the limit belongs to a step, and checkNear also returns true.
func (m *memoryMonitor) checkNear(isLimitHit bool) bool {
	now := time.Now()
	if m.isKillsOnly || !m.nearReports.allows(now) {
		return false
	}
	r := &m.scratch
	*r = rt.JobReading{}
	isFull := m.limit > 0 && m.files.ReadMemory(r, m.limit/10*9, m.buf)
	if !isFull && !isLimitHit {
		return false
	}
	if isFull && withoutPageCache(r) < m.limit/10*8 {
		m.isPolling = true // until Update ends it
		m.nearReports.next = now.Add(reportEvery)
		return false
	}
	m.isPolling = false
	m.nearReports.use(now)
	return true
}
