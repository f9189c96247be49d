package proc

// account is a counter of a process that includes its children: the kernel adds a
// child's counter to that of its parent when the parent waits for it. That holds for
// the bytes of /proc/<pid>/io and for cutime and cstime of /proc/<pid>/stat.
//
// The last value of an ended process must therefore appear in the counter of its
// nearest living ancestor. A parent is read before its children, so the value may appear
// one reading late: until then it is a debt, which counts too. The part that has not
// appeared by then was never waited for; settle returns it as lost.
type account struct {
	now  counters // as last read
	rise counters // of now since the last settle
	gone counters // of descendants that ended since then
	debt counters // of descendants that ended before and have not appeared yet
}

// see records a reading.
func (a *account) see(now counters) {
	for k := range now {
		a.rise[k] += now[k] - min(a.now[k], now[k])
	}
	a.now = now
}

// total is the counter and the debt.
func (a *account) total() counters {
	t := a.now
	t.add(a.debt)
	return t
}

// settle pays the debt with what has appeared, and returns the rest, which never will.
func (a *account) settle() (lost counters) {
	for k := range a.rise {
		paid := min(a.rise[k], a.debt[k])
		lost[k] = a.debt[k] - paid
		a.rise[k] -= paid
		a.debt[k] = a.gone[k] - min(a.rise[k], a.gone[k])
		a.gone[k], a.rise[k] = 0, 0
	}
	return lost
}
