package collect

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// coder encodes or decodes the node's part of a snapshot. The same walk over the tables of
// figures and fields does both, so that the two cannot differ. A change of a table needs a
// new cacheMagic.
type coder struct {
	b     []byte
	write bool
	bad   bool // the input is malformed
}

// cut returns the next n bytes of the input.
func (c *coder) cut(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.bad, c.b = true, nil
		return nil
	}
	part := c.b[:n]
	c.b = c.b[n:]
	return part
}

func (c *coder) u64(v *uint64) {
	if c.write {
		c.b = binary.AppendUvarint(c.b, *v)
		return
	}
	n, size := binary.Uvarint(c.b)
	if size <= 0 {
		c.bad, c.b, n, size = true, nil, 0, 0
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

// text keeps the present string if it is the same.
func (c *coder) text(v *string) {
	n := uint64(len(*v))
	c.u64(&n)
	if c.write {
		c.b = append(c.b, *v...)
		return
	}
	if word := c.cut(n); string(word) != *v {
		*v = string(word)
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
	for _, v := range [...]*uint64{&t.User, &t.Nice, &t.System, &t.Idle, &t.IOWait, &t.IRQ, &t.SoftIRQ, &t.Steal} {
		c.u64(v)
	}
}

// fields encodes or decodes the fields of a row.
func (c *coder) fields(list []rt.Field) {
	for i := range list {
		switch at := list[i].At.(type) {
		case *string:
			c.text(at)
		case *bool:
			c.flag(at)
		case *uint64:
			c.u64(at)
		case *int:
			n := uint64(*at)
			c.u64(&n)
			*at = int(n)
		case *rt.Opt[uint64]:
			option(c, at)
		case *rt.Opt[int64]:
			option(c, at)
		default:
			panic(fmt.Sprintf("the cache of the node has no code for the type %T of the field %s", at, list[i].Name))
		}
	}
}

// rows encodes or decodes a list. Decoding reuses its texts.
func rows[T any, P interface {
	*T
	Fields() []rt.Field
}](c *coder, list *[]T) {
	n := uint64(len(*list))
	c.u64(&n)
	if !c.write {
		if n > uint64(len(c.b)) { // a row is a byte at least
			c.bad, c.b, n = true, nil, 0
		}
		*list = slices.Grow((*list)[:0], int(n))[:n]
	}
	for i := range *list {
		c.fields(P(&(*list)[i]).Fields())
	}
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
	for i := range rt.NodeFigures {
		f := &rt.NodeFigures[i]
		isOfGPUs := strings.HasPrefix(f.Name, "gpu") // each tracker reads its own
		if !isOfGPUs {
			option(c, f.Field(n))
		}
	}
	rows(c, &s.CPUs)
	for i := range s.CPUs {
		c.times(&s.CPUs[i].Times)
	}
	rows(c, &s.Nets)
	rows(c, &s.Disks)
	rows(c, &s.Mounts)
	rows(c, &s.Fabrics)
	rows(c, &s.RemoteFS)
}

// clearNode empties what node walks over.
func clearNode(s *rt.Snapshot) {
	s.Node = rt.NodeReading{GPUs: s.Node.GPUs, GPUUsage: s.Node.GPUUsage, GPUVRAMUsed: s.Node.GPUVRAMUsed, GPUUtilized: s.Node.GPUUtilized}
	s.CPUs, s.Nets, s.Disks, s.Mounts = s.CPUs[:0], s.Nets[:0], s.Disks[:0], s.Mounts[:0]
	s.Fabrics, s.RemoteFS = s.Fabrics[:0], s.RemoteFS[:0]
}
