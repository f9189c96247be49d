package proc

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// member is what is kept of one process of a processSet.
type member struct {
	pid, ppid int
	start     uint64 // ticks after boot
	alive     bool
	own       counters       // user and system time, ticks of USER_HZ
	waited    processCounter // the same of the children that it has waited for
	io        processCounter // storage bytes, with the bytes of the children that it has waited for
	ioRead    bool           // io has been read at least once
	isDenied  bool           // io may not be read
	rss       uint64         // pages

	// Of a tree:
	isOld    bool // it was a member in an earlier reading
	isOrphan bool // it has ended, and this process has waited for it
	isShared bool // its memory is its parent's, see markShared

	// Of a job:
	comm     string
	used     uint64 // ticks since the previous reading
	threads  uint64
	switches counters
	pss      rt.Opt[uint64] // of this reading
	step     string
	task     rt.Opt[uint64]
	located  bool // no more attempts to find step and task are needed
	looks    int  // readings of its cgroup
}

// total is the process's CPU time, with the time of the children that it has waited for.
func (p *member) total() counters {
	t := p.own
	t.add(p.waited.total())
	return t
}

// processSet are the processes of a job or a tree, with what they and the ended ones have used.
//
// The kernel adds the CPU time and storage bytes of an ended process to the process that waits for it.
// If that process is in the set, the sum over the living processes stays exact. The last values of
// an ended process must then appear in its nearest living ancestor, see processCounter.
//
// If no process waited for it, or a process outside the set did, its last values do not appear.
// The set keeps them as lost, and they stay in the sum. So nothing is counted twice. Only what
// such a process used after its last reading is missing.
type processSet struct {
	fs    FS
	peek  peek
	procs []member    // a parent always before its children
	at    map[int]int // pid -> index in procs

	hasIO   bool     // the storage bytes are read
	ioSeen  bool     // the storage bytes of at least one process were read
	lostCPU counters // ticks
	lostIO  counters // bytes

	outside func(pid int, bytes counters) bool // adds the bytes of an ended process to pid outside the set; false if pid has not waited for it
	ends    func(p *member, isCounted bool)    // is called for each ended process; isCounted: a known process waits for it
}

// look reads one process. The error is fs.ErrNotExist if the process does not exist.
func (s *processSet) look(pid int) (member, error) {
	stat, err := s.peek.stat(s.fs.Proc, pid)
	if errors.Is(err, unix.ESRCH) {
		err = fs.ErrNotExist
	}
	return member{
		pid: pid, ppid: stat.PPID, start: stat.Start, alive: true,
		own: stat.Own, waited: processCounter{now: stat.Waited}, rss: stat.RSS,
	}, err
}

// isUnread reports whether err means that a process could not be read though it may exist:
// there is no free descriptor or no memory. A process that has ended gives ENOENT or ESRCH.
// Such a process must not count as ended: it would count twice, now and when it is read again.
func isUnread(err error) bool {
	return err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) && !errors.Is(err, errPidStat)
}

func (s *processSet) add(p member) {
	s.at[p.pid] = len(s.procs)
	s.procs = append(s.procs, p)
}

// has reports whether the process pid is in the set.
func (s *processSet) has(pid int) bool {
	_, ok := s.at[pid]
	return ok
}

// text reads one of a process's files.
func (s *processSet) text(p *member, name string) ([]byte, error) {
	return s.peek.path(s.fs.Proc).num(p.pid).str(name).read()
}

// refresh reads a process again.
func (s *processSet) refresh(p *member) {
	p.isDenied = false
	b, err := s.text(p, "/stat")
	if isUnread(err) {
		p.used = 0
		return
	}
	now, parseErr := parsePidStat(b)
	p.alive = err == nil && parseErr == nil && now.Start == p.start
	if !p.alive {
		return
	}
	used := now.Own[0] + now.Own[1]
	p.used = used - min(p.own[0]+p.own[1], used)
	p.waited.update(now.Waited)
	p.comm = keep(p.comm, now.Comm)
	p.ppid, p.own, p.threads, p.rss = now.PPID, now.Own, now.Threads, now.RSS
	s.readIO(p)
}

// readIO reads the storage bytes of a process. If it cannot read them, the earlier values stay.
func (s *processSet) readIO(p *member) {
	if !s.hasIO {
		return
	}
	b, err := s.text(p, "/io")
	if errors.Is(err, fs.ErrPermission) {
		p.isDenied = !s.hasExited(p)
	}
	if err != nil {
		return
	}
	if now, ok := parsePidIO(b); ok {
		p.io.update(now)
		p.ioRead, s.ioSeen = true, true
	}
}

// hasExited reports whether a process has exited: it has no memory any more. Until its parent waits for it,
// root owns its file io.
func (s *processSet) hasExited(p *member) bool {
	now, err := s.peek.stat(s.fs.Proc, p.pid)
	if err != nil {
		return true
	}
	return now.RSS == 0 && now.Threads <= 1
}

// countEnded gives the last values of the ended processes to those that wait for them. dropEnded follows.
func (s *processSet) countEnded() {
	for i := range s.procs {
		p := &s.procs[i]
		if p.alive {
			continue
		}
		ancestor, above := s.ancestor(p)
		isCounted := ancestor != nil
		switch {
		case isCounted:
			ancestor.io.ended.add(p.io.total())
			ancestor.waited.ended.add(p.total())
		case above != 0 && s.outside != nil:
			isCounted = s.outside(above, p.io.total())
		}
		if !isCounted {
			s.lose(p)
		}
		if s.ends != nil {
			s.ends(p, isCounted)
		}
	}
}

// ancestor returns the nearest living ancestor of p in the set, according to the parents last read.
// If there is none, it returns the first ancestor outside the set.
func (s *processSet) ancestor(p *member) (a *member, outside int) {
	for range s.procs {
		i, ok := s.at[p.ppid]
		if !ok {
			return nil, p.ppid
		}
		p = &s.procs[i]
		if p.alive {
			return p, 0
		}
	}
	return nil, 0
}

// lose keeps the values of an ended process that no known process waits for.
func (s *processSet) lose(p *member) {
	s.lostCPU.add(p.total())
	s.lostIO.add(p.io.total())
}

// dropEnded reconciles the counters of the living processes and drops the ended ones.
func (s *processSet) dropEnded() {
	n := len(s.procs)
	living := s.procs[:0]
	for i := range s.procs {
		p := &s.procs[i]
		if p.alive {
			for k, lost := range p.waited.reconcile() {
				if lost > 1 { // the kernel rounds each figure down to whole ticks
					s.lostCPU[k] += lost
				}
			}
			s.lostIO.add(p.io.reconcile())
		}
		if p.isOrphan {
			s.lose(p)
		}
		if !p.alive || p.isOrphan {
			delete(s.at, p.pid)
			continue
		}
		living = append(living, *p)
	}
	clear(s.procs[len(living):n])
	s.procs = living
	if len(living) < n {
		for i := range living {
			s.at[living[i].pid] = i
		}
	}
}

// sums returns the ticks and bytes of all processes, with the ended ones.
func (s *processSet) sums() (cpu, io counters) {
	cpu, io = s.lostCPU, s.lostIO
	for i := range s.procs {
		cpu.add(s.procs[i].total())
		io.add(s.procs[i].io.total())
	}
	return cpu, io
}

// counters are two counters of one thing: bytes read and written, user and system time.
type counters [2]uint64

func (c *counters) add(o counters) {
	c[0] += o[0]
	c[1] += o[1]
}

// processCounter is a counter of a process that includes its children. The kernel adds a
// child's counter to its parent's when the parent waits for the child. That holds for the
// bytes of /proc/<pid>/io and for cutime and cstime of /proc/<pid>/stat.
//
// The last value of an ended process must therefore appear in the counter of its
// nearest living ancestor. A parent is read before its children, so the value may appear
// one reading late. Until then it is pending, and total includes it. If a part has not
// appeared by then, no process waited for it, and reconcile returns it as lost.
type processCounter struct {
	now     counters // as last read
	rise    counters // of now since the last reconcile
	ended   counters // of descendants that ended since then
	pending counters // of descendants that ended before and have not appeared yet
}

// update records a reading.
func (a *processCounter) update(now counters) {
	for k := range now {
		a.rise[k] += now[k] - min(a.now[k], now[k])
	}
	a.now = now
}

// total is the counter and the pending values.
func (a *processCounter) total() counters {
	t := a.now
	t.add(a.pending)
	return t
}

// reconcile subtracts what has appeared from the pending values, and returns the rest, which is lost.
func (a *processCounter) reconcile() (lost counters) {
	for k := range a.rise {
		appeared := min(a.rise[k], a.pending[k])
		lost[k] = a.pending[k] - appeared
		a.rise[k] -= appeared
		a.pending[k] = a.ended[k] - min(a.rise[k], a.ended[k])
		a.ended[k], a.rise[k] = 0, 0
	}
	return lost
}
