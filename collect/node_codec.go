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

func (c *coder) u64(v *uint64) {
	if c.write {
		c.b = binary.AppendUvarint(c.b, *v)
		return
	}
	n, size := binary.Uvarint(c.b)
	if size <= 0 {
		c.bad, c.b = true, nil
		*v = 0
		return
	}
	*v, c.b = n, c.b[size:]
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

// text keeps the present string if it is the same.
func (c *coder) text(v *string) {
	n := uint64(len(*v))
	c.u64(&n)
	if c.write {
		c.b = append(c.b, *v...)
		return
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

func (c *coder) opt(values ...*rt.Opt[uint64]) {
	for _, v := range values {
		n, ok := v.Get()
		c.flag(&ok)
		if !ok {
			v.Clear()
			continue
		}
		c.u64(&n)
		v.Set(n)
	}
}

func (c *coder) signed(v *rt.Opt[int64]) {
	n, ok := v.Get()
	c.flag(&ok)
	if !ok {
		v.Clear()
		return
	}
	u := uint64(n)
	c.u64(&u)
	v.Set(int64(u))
}

func (c *coder) times(t *rt.CPUTimes) {
	for _, v := range [...]*uint64{&t.User, &t.Nice, &t.System, &t.Idle, &t.IOWait, &t.IRQ, &t.SoftIRQ, &t.Steal} {
		c.u64(v)
	}
}

// rows encodes or decodes the number of rows of a table. Decoding reuses the texts of
// the present rows.
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
		&n.Active, &n.Inactive, &n.SwapTotal, &n.SwapFree, &n.NetRxBytes, &n.NetTxBytes, &n.DiskReadBytes, &n.DiskWriteBytes,
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
		c.text(&f.Link)
		c.text(&f.State)
		c.opt(&f.RateMbps, &f.RxBytes, &f.TxBytes, &f.RxPackets, &f.TxPackets)
	}
	for i := range rows(c, &s.RemoteFS) {
		f := &s.RemoteFS[i]
		c.text(&f.Kind)
		c.text(&f.Source)
		c.text(&f.MountPoint)
		c.opt(&f.ReadBytes, &f.WriteBytes, &f.Ops)
	}
}

func (c *coder) devices(s *rt.Snapshot) {
	for i := range rows(c, &s.Nets) {
		n := &s.Nets[i]
		c.text(&n.Name)
		c.opt(&n.RxBytes, &n.TxBytes, &n.MTU)
		c.text(&n.MAC)
		c.text(&n.Driver)
		c.text(&n.OperState)
		c.signed(&n.SpeedMbps)
	}
	for i := range rows(c, &s.Disks) {
		d := &s.Disks[i]
		c.text(&d.Name)
		c.flag(&d.Leaf)
		c.opt(&d.ReadBytes, &d.WriteBytes, &d.Capacity)
		c.text(&d.Model)
		c.text(&d.Vendor)
		c.text(&d.Serial)
		c.text(&d.Type)
	}
	for i := range rows(c, &s.Mounts) {
		m := &s.Mounts[i]
		c.text(&m.Disk)
		c.text(&m.MountPoint)
		c.text(&m.FSType)
		c.u64(&m.Total)
		c.u64(&m.Available)
		c.u64(&m.Used)
	}
}

// clearNode empties what node walks over.
func clearNode(s *rt.Snapshot) {
	gpu := rt.NodeReading{GPUUsage: s.Node.GPUUsage, GPUVRAMUsed: s.Node.GPUVRAMUsed, GPUUtilized: s.Node.GPUUtilized}
	s.Node = gpu
	s.CPUs, s.Nets, s.Disks, s.Mounts = s.CPUs[:0], s.Nets[:0], s.Disks[:0], s.Mounts[:0]
	s.Fabrics, s.RemoteFS = s.Fabrics[:0], s.RemoteFS[:0]
}
