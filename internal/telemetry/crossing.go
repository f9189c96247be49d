package telemetry

import (
	"net/netip"

	"github.com/resource-tracker/rt/format/gempba"
)

// crossing has what workers send to workers on other nodes. Each node reports the
// connections with an unknown other end; crossing matches the two ends.
type crossing struct {
	ends map[addresses]*crossEnd
	sums sums[jointID]
}

// addresses name one end of a connection.
type addresses struct{ local, remote netip.AddrPort }

// crossEnd is one end of a connection, kept between readings.
type crossEnd struct {
	from, to       jointID
	met            bool   // to is known
	bytes, packets uint64 // that are in sums
}

func newCrossing() crossing {
	return crossing{ends: map[addresses]*crossEnd{}, sums: sums[jointID]{}}
}

// look updates the sums.
func (c *crossing) look(parts []part, there func(jointID) bool) {
	at := map[addresses]jointID{}
	each := func(visit func(id jointID, p *gempba.Peer)) {
		for _, part := range parts {
			for i := range part.Workers {
				w := &part.Workers[i]
				for k := range w.Peers {
					visit(jointID{part.node, w.WorkerID}, &w.Peers[k])
				}
			}
		}
	}
	each(func(id jointID, p *gempba.Peer) { at[addresses{p.Local, p.Remote}] = id })
	each(func(id jointID, p *gempba.Peer) {
		key := addresses{p.Local, p.Remote}
		e := c.ends[key]
		if e == nil || e.from != id || p.Bytes < e.bytes { // another connection uses the port
			e = &crossEnd{from: id}
			c.ends[key] = e
		}
		if other, ok := at[addresses{p.Remote, p.Local}]; ok {
			e.to, e.met = other, true
		}
		if e.met && p.Bytes > e.bytes {
			c.sums.add(e.from, e.to, p.Bytes-e.bytes, max(p.Count, e.packets)-e.packets)
			e.bytes, e.packets = p.Bytes, p.Count
		}
	})
	for key := range c.ends {
		if _, open := at[key]; !open {
			delete(c.ends, key)
		}
	}
	c.sums.forget(there)
}
