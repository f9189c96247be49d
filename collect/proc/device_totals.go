package proc

// counters are the two byte counters of a device: in and out, or read and written.
type counters [2]uint64

// row is what is kept of one device between readings.
type row[T any] struct {
	name  string
	isNew bool     // its first reading
	last  counters // at its last reading
	dev   T        // identity and what else the source keeps
}

// table keeps the devices of a file in the order of its lines, so that finding
// one is a comparison with the row where it was last time. It also adds up what
// the devices counted while they were there: the sums begin as the plain sums of
// the first reading; a device that comes later adds nothing by its coming, one
// that goes takes nothing away, and one that starts anew counts on from there.
type table[T any] struct {
	rows    []row[T]
	n       int // rows seen in this reading
	total   counters
	started bool
}

// begin starts a reading.
func (t *table[T]) begin() { t.n = 0 }

// next returns the row of the device that the next line names.
func (t *table[T]) next(name []byte) *row[T] {
	i := t.n
	t.n++
	for k := i; k < len(t.rows); k++ {
		if t.rows[k].name == string(name) {
			t.rows[i], t.rows[k] = t.rows[k], t.rows[i]
			t.rows[i].isNew = false
			return &t.rows[i]
		}
	}
	t.rows = append(t.rows, row[T]{name: string(name), isNew: true})
	last := len(t.rows) - 1
	t.rows[i], t.rows[last] = t.rows[last], t.rows[i]
	return &t.rows[i]
}

// count takes a reading of the row into the sums.
func (t *table[T]) count(r *row[T], now counters) {
	for k := range now {
		switch {
		case r.isNew && !t.started:
			t.total[k] += now[k]
		case !r.isNew && now[k] > r.last[k]:
			t.total[k] += now[k] - r.last[k]
		}
	}
	r.last = now
}

// end forgets the devices that were not in this reading.
func (t *table[T]) end() {
	clear(t.rows[t.n:])
	t.rows = t.rows[:t.n]
	t.started = true
}
