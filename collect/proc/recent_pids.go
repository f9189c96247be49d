package proc

import "bytes"

// recentPIDs lists the pids that may belong to processes created since the last but one
// reading. The kernel assigns pids in ascending order and starts again at the largest one.
// /proc/loadavg has the last pid of the PID namespace of this process.
type recentPIDs struct {
	last   *LastPID
	isUsed bool      // /proc shows the PID namespace of this process
	before [2]uint64 // the last pid at the last two readings, the older one first
	until  int       // readings before the next complete search
}

// searchEvery is the number of readings after which all processes are searched again. It finds
// processes that the kernel created with a given pid, as a program that restores processes can
// demand (clone3(2), set_tid).
const searchEvery = 30

func newRecentPIDs(fs FS) recentPIDs { return recentPIDs{last: NewLastPID(fs)} }

func (r *recentPIDs) close() error { return r.last.Close() }

// isOwn reports whether proc shows the processes with the pids that this process sees: then
// /proc/self/status has one pid (NSpid, Linux 4.1). It is false for a proc of another
// container, and for recorded files.
func (r *recentPIDs) isOwn(proc string) bool {
	var p peek
	r.isUsed = p.isOwnProc(proc)
	return r.isUsed
}

func (p *peek) isOwnProc(proc string) bool {
	b, err := p.path(proc).str("/self/status").read()
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(b, []byte("\nNSpid:"))
	line, _, _ := bytes.Cut(rest, []byte{'\n'})
	return len(bytes.Fields(line)) == 1
}

// next appends the pids to dst. It is false if all processes have to be searched, because
// that costs less, the pids have started again, or the time has come.
//
// A process can get its pid before a reading and appear in /proc after it. Therefore the
// pids since the last but one reading are returned.
func (r *recentPIDs) next(dst []int, members int) (_ []int, ok bool) {
	if !r.isUsed {
		return dst, false
	}
	now, ok := r.last.Read()
	from := r.before[0]
	r.before[0], r.before[1] = r.before[1], now
	isDue := r.until == 0 || !ok || from == 0 || now < from
	if isDue || now-from > uint64(64+members) {
		r.until = searchEvery
		return dst, false
	}
	r.until--
	for pid := from + 1; pid <= now; pid++ {
		dst = append(dst, int(pid))
	}
	return dst, true
}
