package proc

// counters are two counters of one thing: bytes in and out, bytes read and written,
// user and system time.
type counters [2]uint64

func (c *counters) add(o counters) {
	c[0] += o[0]
	c[1] += o[1]
}

// device is what is kept of one device between readings.
type device[T any] struct {
	name  string
	isNew bool     // this is its first reading
	last  counters // at its last reading
	info  T        // identity and other data of the source
}

// deviceTotals keeps the devices of a file in the order of its lines, so that finding
// one takes a comparison with the device at the same place last time. It also adds up
// the counters of the devices while they exist. The sums begin with the counters of the
// first reading; a device that appears later adds nothing at first, one that vanishes
// subtracts nothing, and counters that restart continue from there.
type deviceTotals[T any] struct {
	devices []device[T]
	n       int // devices seen in this reading
	total   counters
	started bool
}

// begin starts a reading.
func (t *deviceTotals[T]) begin() { t.n = 0 }

// next returns the device of the next line.
func (t *deviceTotals[T]) next(name []byte) *device[T] {
	i := t.n
	t.n++
	for k := i; k < len(t.devices); k++ {
		if t.devices[k].name == string(name) {
			t.devices[i], t.devices[k] = t.devices[k], t.devices[i]
			t.devices[i].isNew = false
			return &t.devices[i]
		}
	}
	t.devices = append(t.devices, device[T]{name: string(name), isNew: true})
	last := len(t.devices) - 1
	t.devices[i], t.devices[last] = t.devices[last], t.devices[i]
	return &t.devices[i]
}

// count adds a reading of the device to the sums.
func (t *deviceTotals[T]) count(d *device[T], now counters) {
	for k := range now {
		switch {
		case d.isNew && !t.started:
			t.total[k] += now[k]
		case !d.isNew && now[k] > d.last[k]:
			t.total[k] += now[k] - d.last[k]
		}
	}
	d.last = now
}

// end drops the devices that were not in this reading.
func (t *deviceTotals[T]) end() {
	clear(t.devices[t.n:])
	t.devices = t.devices[:t.n]
	t.started = true
}
