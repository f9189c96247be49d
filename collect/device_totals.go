package collect

import (
	"strings"

	"github.com/resource-tracker/rt"
)

// Device is what DeviceTotals keeps of one device between readings.
type Device[T any] struct {
	Name  string
	IsNew bool      // this is its first reading
	Info  T         // identity and other data of the source
	last  [2]uint64 // at its last reading
}

// DeviceTotals keeps the devices of a source in the order of its list. Finding one takes a
// comparison with the device at the same place last time. DeviceTotals also adds up two
// counters of the devices while they exist, such as bytes in and out. The sums begin with
// the counters of the first reading. A device that appears later adds nothing at first, and
// one that vanishes subtracts nothing. Counters that restart continue from the old sum.
type DeviceTotals[T any] struct {
	devices []Device[T]
	n       int // devices seen in this reading
	total   [2]uint64
	started bool
}

// Begin starts a reading.
func (t *DeviceTotals[T]) Begin() { t.n = 0 }

// Next returns the next device of the list.
func (t *DeviceTotals[T]) Next(name string) *Device[T] {
	i := t.n
	t.n++
	at := i
	for at < len(t.devices) && t.devices[at].Name != name {
		at++
	}
	isNew := at == len(t.devices)
	if isNew {
		t.devices = append(t.devices, Device[T]{Name: strings.Clone(name)})
	}
	t.devices[i], t.devices[at] = t.devices[at], t.devices[i]
	t.devices[i].IsNew = isNew
	return &t.devices[i]
}

// Devices returns the devices of this reading in the order of the list, valid until the next call
// of Next.
func (t *DeviceTotals[T]) Devices() []Device[T] { return t.devices[:t.n] }

// Count adds a reading of the device to the sums. A reading that is not counted is only kept: the device may be in the
// sums later.
func (t *DeviceTotals[T]) Count(d *Device[T], now [2]uint64, isCounted bool) {
	for k := range now {
		switch {
		case !isCounted:
		case d.IsNew && !t.started:
			t.total[k] += now[k]
		case !d.IsNew && now[k] > d.last[k]:
			t.total[k] += now[k] - d.last[k]
		}
	}
	d.last = now
}

// End drops the devices that were not in this reading, and sets the sums.
func (t *DeviceTotals[T]) End(first, second *rt.Opt[uint64]) {
	clear(t.devices[t.n:])
	t.devices = t.devices[:t.n]
	t.started = true
	first.Set(t.total[0])
	second.Set(t.total[1])
}

// nodeSums computes the sums over the node's devices since the start of this tracker. The
// sums in the node cache belong to the tracker that wrote them, which started at another
// time.
type nodeSums struct {
	nets, disks DeviceTotals[struct{}]
}

// fill replaces the sums in s.
func (n *nodeSums) fill(s *rt.Snapshot) {
	if s.Node.NetRxBytes.Valid() {
		n.nets.Begin()
		wire := rt.NewWire(s.Nets)
		for i := range s.Nets {
			r := &s.Nets[i]
			n.nets.Count(n.nets.Next(r.Name), [2]uint64{r.RxBytes.Or(0), r.TxBytes.Or(0)}, wire.Has(i))
		}
		n.nets.End(&s.Node.NetRxBytes, &s.Node.NetTxBytes)
	}
	if s.Node.DiskReadBytes.Valid() {
		n.disks.Begin()
		for i := range s.Disks {
			if r := &s.Disks[i]; r.Leaf {
				n.disks.Count(n.disks.Next(r.Name), [2]uint64{r.ReadBytes.Or(0), r.WriteBytes.Or(0)}, true)
			}
		}
		n.disks.End(&s.Node.DiskReadBytes, &s.Node.DiskWriteBytes)
	}
}
