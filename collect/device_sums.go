package collect

import (
	"slices"

	"github.com/resource-tracker/rt"
)

// deviceSums adds up the counters of devices while they exist, as the sources of the
// node do: values from the cache contain the sums of another tracker, which began at
// another time.
type deviceSums struct {
	rows    []deviceRow
	total   [2]uint64
	started bool
}

type deviceRow struct {
	name string
	last [2]uint64
	seen bool
}

// count adds a reading of the i-th device.
func (d *deviceSums) count(i int, name string, now [2]uint64) {
	i = min(i, len(d.rows))
	for k := range d.rows {
		if at := (i + k) % len(d.rows); d.rows[at].name == name {
			r := &d.rows[at]
			for k := range now {
				d.total[k] += now[k] - min(now[k], r.last[k])
			}
			r.last, r.seen = now, true
			return
		}
	}
	if !d.started {
		d.total[0] += now[0]
		d.total[1] += now[1]
	}
	d.rows = append(d.rows, deviceRow{name: name, last: now, seen: true})
}

// end drops the devices that were not in this reading, and sets the sums.
func (d *deviceSums) end(first, second *rt.Opt[uint64]) {
	d.started = true
	d.rows = slices.DeleteFunc(d.rows, func(r deviceRow) bool { return !r.seen })
	for i := range d.rows {
		d.rows[i].seen = false
	}
	first.Set(d.total[0])
	second.Set(d.total[1])
}

// nodeSums has the sums of the node's tables.
type nodeSums struct {
	nets, disks deviceSums
}

// fill replaces the sums in s.
func (n *nodeSums) fill(s *rt.Snapshot) {
	if s.Node.NetRxBytes.Valid() {
		for i := range s.Nets {
			r := &s.Nets[i]
			n.nets.count(i, r.Name, [2]uint64{r.RxBytes.Or(0), r.TxBytes.Or(0)})
		}
		n.nets.end(&s.Node.NetRxBytes, &s.Node.NetTxBytes)
	}
	if s.Node.DiskReadBytes.Valid() {
		for i := range s.Disks {
			if r := &s.Disks[i]; r.Leaf {
				n.disks.count(i, r.Name, [2]uint64{r.ReadBytes.Or(0), r.WriteBytes.Or(0)})
			}
		}
		n.disks.end(&s.Node.DiskReadBytes, &s.Node.DiskWriteBytes)
	}
}
