package proc

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
// one reading late: until then it is pending, and is counted too. The part that has not
// appeared by then was never waited for; reconcile returns it as lost.
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
