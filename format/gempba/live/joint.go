package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/resource-tracker/rt/format/gempba"
)

// Joint is the source of a job on several nodes: this one and those that send. It assigns
// new worker ids, which are unique within the job.
type Joint struct {
	local FrameSource
	warn  func(error)
	ids   map[jointID]uint32 // of the workers in the job
	next  uint32             // the lowest id that was never assigned
	full  bool               // and this was reported
	here  gempba.Envelope    // the last reading of this node
	parts []part             // the nodes of the last reading
	cross crossing           // traffic between nodes

	mu     sync.Mutex
	others map[string]*gempba.Envelope // the newest line of each other node
}

type jointID struct {
	node string // empty for this one
	id   uint32
}

// part is the line of one node.
type part struct {
	node string
	*gempba.Envelope
}

// NewJoint returns a source that has this node until others send.
func NewJoint(local FrameSource, warn func(error)) *Joint {
	return &Joint{local: local, warn: warn, ids: map[jointID]uint32{}, cross: newCrossing(), others: map[string]*gempba.Envelope{}}
}

// Read reads the lines of another node until they end, and then drops the node.
func (j *Joint) Read(ctx context.Context, node string, r io.Reader) error {
	defer j.set(node, nil)
	d := gempba.NewDecoder(r)
	for {
		e, err := d.Next()
		switch {
		case ctx.Err() != nil || errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("node %s is left out: %w", node, err)
		}
		j.set(node, e)
	}
}

func (j *Joint) set(node string, e *gempba.Envelope) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e == nil {
		delete(j.others, node)
		return
	}
	j.others[node] = e
}

// Workers implements FrameSource.
func (j *Joint) Workers(now time.Time) []gempba.WorkerFrame {
	j.here.Workers, j.here.Topology = j.local.Workers(now), j.local.Topology()
	j.gather()
	j.forget()
	for _, p := range j.parts {
		for i := range p.Workers {
			j.assignID(p.node, p.Workers[i].WorkerID)
		}
	}
	idOf := func(of jointID) (uint32, bool) { id, ok := j.ids[of]; return id, ok }
	j.cross.update(j.parts, func(id jointID) bool { _, ok := idOf(id); return ok })
	var out []gempba.WorkerFrame
	for _, p := range j.parts {
		for _, w := range p.Workers {
			id, ok := j.ids[jointID{p.node, w.WorkerID}]
			if !ok {
				continue
			}
			edges := j.cross.sums.edges(jointID{p.node, w.WorkerID}, idOf)
			w.WorkerID, w.Peers = id, nil
			for _, e := range w.EdgesOut {
				if to, ok := j.ids[jointID{p.node, e.To}]; ok {
					edges = append(edges, gempba.Edge{To: to, Bytes: e.Bytes, Count: e.Count})
				}
			}
			w.EdgesOut = heaviest(edges)
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b gempba.WorkerFrame) int { return int(a.WorkerID) - int(b.WorkerID) })
	return out
}

// gather takes the newest line of each node.
func (j *Joint) gather() {
	j.parts = append(j.parts[:0], part{"", &j.here})
	j.mu.Lock()
	for node, e := range j.others {
		j.parts = append(j.parts, part{node, e})
	}
	j.mu.Unlock()
	slices.SortFunc(j.parts, func(a, b part) int { return strings.Compare(a.node, b.node) })
}

// forget frees the ids of workers that have ended.
func (j *Joint) forget() {
	there := make(map[jointID]bool, len(j.ids))
	for _, p := range j.parts {
		for i := range p.Workers {
			there[jointID{p.node, p.Workers[i].WorkerID}] = true
		}
	}
	maps.DeleteFunc(j.ids, func(id jointID, _ uint32) bool { return !there[id] })
}

// assignID assigns an id in the job to a worker that has none, if one is left.
func (j *Joint) assignID(node string, worker uint32) {
	key := jointID{node, worker}
	if _, ok := j.ids[key]; ok {
		return
	}
	id, ok := newID(&j.next, func(taken []bool) {
		for _, id := range j.ids {
			taken[id] = true
		}
	})
	if ok {
		j.ids[key] = id
	} else if !j.full {
		j.full = true
		j.warn(fmt.Errorf("the job has more than %d workers: the others are left out", gempba.MaxWorkers))
	}
}

// Nodes implements FrameSource.
func (j *Joint) Nodes(now time.Time) []gempba.NodeFrame {
	j.here.Nodes = j.local.Nodes(now)
	j.gather()
	var out []gempba.NodeFrame
	for _, p := range j.parts {
		for _, n := range p.Nodes {
			n.SentinelWorkerID = j.sentinel(&p, n.SentinelWorkerID)
			out = append(out, n)
		}
	}
	return out
}

// sentinel returns the id in the job of the worker that represents a node, else of its first one.
func (j *Joint) sentinel(p *part, worker uint32) uint32 {
	if id, ok := j.ids[jointID{p.node, worker}]; ok {
		return id
	}
	for i := range p.Workers {
		if id, ok := j.ids[jointID{p.node, p.Workers[i].WorkerID}]; ok {
			return id
		}
	}
	return 0
}

// Topology implements FrameSource.
func (j *Joint) Topology() *gempba.Topology {
	t := &gempba.Topology{}
	for _, p := range j.parts {
		if p.Topology == nil {
			continue
		}
		for _, n := range p.Topology.Nodes {
			n.SentinelWorkerID = j.sentinel(&p, n.SentinelWorkerID)
			ids := []uint32{}
			for _, id := range n.WorkerIDs {
				if id, ok := j.ids[jointID{p.node, id}]; ok {
					ids = append(ids, id)
				}
			}
			n.WorkerIDs = ids
			t.Nodes = append(t.Nodes, n)
		}
		for _, i := range p.Topology.Identities {
			if id, ok := j.ids[jointID{p.node, i.WorkerID}]; ok {
				i.WorkerID = id
				t.Identities = append(t.Identities, i)
			}
		}
	}
	slices.SortFunc(t.Identities, func(a, b gempba.Identity) int { return int(a.WorkerID) - int(b.WorkerID) })
	return t
}

// Promote implements FrameSource, for the workers of this node.
func (j *Joint) Promote(worker uint32) {
	for key, id := range j.ids {
		if id == worker && key.node == "" {
			j.local.Promote(key.id)
		}
	}
}

// crossing matches the ends of connections between workers on two nodes, and sums what they send.
type crossing struct {
	ends map[addresses]*connEnd[jointID]
	sums sums[jointID]
}

func newCrossing() crossing {
	return crossing{ends: map[addresses]*connEnd[jointID]{}, sums: sums[jointID]{}}
}

// update updates the sums.
func (c *crossing) update(parts []part, there func(jointID) bool) {
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
			e = &connEnd[jointID]{from: id}
			c.ends[key] = e
		}
		if other, ok := at[addresses{p.Remote, p.Local}]; ok {
			e.to, e.met = other, true
		}
		e.count(c.sums, p.Bytes, p.Count)
	})
	for key := range c.ends {
		if _, open := at[key]; !open {
			delete(c.ends, key)
		}
	}
	c.sums.forget(there)
}
