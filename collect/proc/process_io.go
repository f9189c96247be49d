package proc

// add adds what another counted.
func (c *counters) add(o counters) {
	c[0] += o[0]
	c[1] += o[1]
}

// account is what one process has counted itself and by the children that it has
// waited for, in one figure: the bytes of /proc/<pid>/io, to which the kernel adds
// a child's when its parent collects it.
//
// When a process is gone, its last seen figure should therefore turn up in that of
// its nearest ancestor. A parent is read before its children, so it may turn up one
// reading late: until then it is a debt, which counts too. What has not turned up
// by then, nobody has waited for, and it is handed out as lost.
type account struct {
	now  counters // as last read
	rise counters // of now since the account was settled
	gone counters // of descendants that went since then
	debt counters // of descendants that went before and have not turned up yet
}

// see takes a reading.
func (a *account) see(now counters) {
	for k := range now {
		a.rise[k] += now[k] - min(a.now[k], now[k])
	}
	a.now = now
}

// total is what the process has counted and owes.
func (a *account) total() counters {
	t := a.now
	t.add(a.debt)
	return t
}

// settle pays what is owed with what has turned up, and returns what never will.
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
