package collect

import (
	"encoding/binary"
	"slices"

	"github.com/resource-tracker/rt"
)

// coder encodes the node's part of a snapshot, or decodes it: the same walk over the
// fields does both, so that the two cannot differ. A change to the walk needs a new
// cacheMagic.
type coder struct {
	b     []byte
	write bool
	bad   bool // the input is malformed
}

func (c *coder) u64(values ...*uint64) {
	for _, v := range values {
		if c.write {
			c.b = binary.AppendUvarint(c.b, *v)
			continue
		}
		n, size := binary.Uvarint(c.b)
		if size <= 0 {
			c.bad, c.b = true, nil
			*v = 0
			continue
		}
		*v, c.b = n, c.b[size:]
	}
}

func (c *coder) flag(v *bool) {
	var n uint64
	if *v {
		n = 1
	}
	c.u64(&n)
	*v = n != 0
}

// equal decodes a text and compares it, without an allocation.
func (c *coder) equal(want string) bool {
	var n uint64
	c.u64(&n)
	if c.bad || n != uint64(len(want)) || n > uint64(len(c.b)) || string(c.b[:n]) != want {
		return false
	}
	c.b = c.b[n:]
	return true
}

// text keeps the present strings if they are the same.
func (c *coder) text(values ...*string) {
	for _, v := range values {
		n := uint64(len(*v))
		c.u64(&n)
		if c.write {
			c.b = append(c.b, *v...)
			continue
		}
		if n > uint64(len(c.b)) {
			c.bad, c.b = true, nil
			return
		}
		if string(c.b[:n]) != *v {
			*v = string(c.b[:n])
		}
		c.b = c.b[n:]
	}
}

func (c *coder) opt(values ...*rt.Opt[uint64]) {
	for _, v := range values {
		option(c, v)
	}
}

func option[T uint64 | int64](c *coder, v *rt.Opt[T]) {
	n, ok := v.Get()
	c.flag(&ok)
	if !ok {
		v.Clear()
		return
	}
	u := uint64(n)
	c.u64(&u)
	v.Set(T(u))
}

func (c *coder) times(t *rt.CPUTimes) {
	c.u64(&t.User, &t.Nice, &t.System, &t.Idle, &t.IOWait, &t.IRQ, &t.SoftIRQ, &t.Steal)
}

// rows encodes or decodes the number of rows of a table. Decoding reuses their texts.
func rows[T any](c *coder, table *[]T) []T {
	n := uint64(len(*table))
	c.u64(&n)
	if c.write {
		return *table
	}
	if n > uint64(len(c.b)) { // a row is a byte at least
		c.bad, c.b, n = true, nil, 0
	}
	*table = slices.Grow((*table)[:0], int(n))[:n]
	return *table
}

// node walks over everything that the node's sources fill.
func (c *coder) node(s *rt.Snapshot) {
	n := &s.Node
	cpu, ok := n.CPU.Get()
	c.flag(&ok)
	n.CPU.Clear()
	if ok {
		c.times(&cpu)
		n.CPU.Set(cpu)
	}
	c.opt(
		&n.CPUs, &n.Processes, &n.MemTotal, &n.MemFree, &n.MemAvailable, &n.Buffers, &n.Cached, &n.SReclaimable, &n.Shmem,
		&n.Active, &n.Inactive, &n.SwapTotal, &n.SwapFree, &n.HugeFree, &n.NetRxBytes, &n.NetTxBytes, &n.DiskReadBytes, &n.DiskWriteBytes,
		&n.SpaceTotal, &n.SpaceAvailable, &n.Load1, &n.CPUFreq,
	)
	for i := range rows(c, &s.CPUs) {
		number := uint64(s.CPUs[i].CPU)
		c.u64(&number)
		s.CPUs[i].CPU = int(number)
		c.times(&s.CPUs[i].Times)
	}
	c.devices(s)
	for i := range rows(c, &s.Fabrics) {
		f := &s.Fabrics[i]
		c.text(&f.Device)
		c.u64(&f.Port)
		c.text(&f.Link, &f.State)
		c.opt(&f.RateMbps, &f.RxBytes, &f.TxBytes, &f.RxPackets, &f.TxPackets)
	}
	for i := range rows(c, &s.RemoteFS) {
		f := &s.RemoteFS[i]
		c.text(&f.Kind, &f.Source, &f.MountPoint)
		c.opt(&f.ReadBytes, &f.WriteBytes, &f.Ops)
	}
}

func (c *coder) devices(s *rt.Snapshot) {
	for i := range rows(c, &s.Nets) {
		n := &s.Nets[i]
		c.text(&n.Name)
		c.opt(&n.RxBytes, &n.TxBytes, &n.MTU)
		c.text(&n.MAC, &n.Driver, &n.OperState)
		option(c, &n.SpeedMbps)
	}
	for i := range rows(c, &s.Disks) {
		d := &s.Disks[i]
		c.text(&d.Name)
		c.flag(&d.Leaf)
		c.opt(&d.ReadBytes, &d.WriteBytes, &d.Capacity)
		c.text(&d.Model, &d.Vendor, &d.Serial, &d.Type)
	}
	for i := range rows(c, &s.Mounts) {
		m := &s.Mounts[i]
		c.text(&m.Disk, &m.MountPoint, &m.FSType)
		c.u64(&m.Total, &m.Available, &m.Used)
	}
}

// clearNode empties what node walks over.
func clearNode(s *rt.Snapshot) {
	s.Node = rt.NodeReading{GPUs: s.Node.GPUs, GPUUsage: s.Node.GPUUsage, GPUVRAMUsed: s.Node.GPUVRAMUsed, GPUUtilized: s.Node.GPUUtilized}
	s.CPUs, s.Nets, s.Disks, s.Mounts = s.CPUs[:0], s.Nets[:0], s.Disks[:0], s.Mounts[:0]
	s.Fabrics, s.RemoteFS = s.Fabrics[:0], s.RemoteFS[:0]
}
