package live

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt/format/gempba"
)

// traffic has what workers send to each other over TCP: the sockets of their processes,
// matched by addresses. It does not see what a socket carries after the last reading of
// it, and no traffic through memory, pipes or other networks.
type traffic struct {
	conns  func([]Conn) ([]Conn, error)
	procfs string

	next  time.Time // of the next reading
	list  []Conn
	pids  []int             // of the workers at the last reading of descriptors
	owner map[uint64]string // worker of each socket; empty for none
	ends  map[uint64]*connEnd[string]
	sums  sums[string]
}

// sums are bytes and packets by sender and receiver.
type sums[K comparable] map[K]map[K]*gempba.Edge

// addBytes counts bytes and packets from one worker to another.
func (s sums[K]) addBytes(from, to K, bytes, packets uint64) {
	if s[from] == nil {
		s[from] = map[K]*gempba.Edge{}
	}
	sum := s[from][to]
	if sum == nil {
		sum = &gempba.Edge{}
		s[from][to] = sum
	}
	sum.Bytes += bytes
	sum.Count += packets
}

// forget removes the workers that have ended.
func (s sums[K]) forget(there func(K) bool) {
	for from, all := range s {
		if !there(from) {
			delete(s, from)
			continue
		}
		maps.DeleteFunc(all, func(to K, _ *gempba.Edge) bool { return !there(to) })
	}
}

// maxEdges is how many edges of a worker a line has room for: those with most bytes.
const maxEdges = 64

// edges returns the edges of a sender, sorted by the ids of the receivers.
func (s sums[K]) edges(from K, id func(K) (uint32, bool)) []gempba.Edge {
	out := []gempba.Edge{}
	for to, sum := range s[from] {
		if n, ok := id(to); ok && sum.Count > 0 {
			out = append(out, gempba.Edge{To: n, Bytes: sum.Bytes, Count: sum.Count})
		}
	}
	return heaviest(out)
}

// heaviest returns the maxEdges with most bytes, sorted by receiver.
func heaviest(edges []gempba.Edge) []gempba.Edge {
	slices.SortFunc(edges, func(a, b gempba.Edge) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.To, b.To)) })
	edges = edges[:min(len(edges), maxEdges)]
	slices.SortFunc(edges, func(a, b gempba.Edge) int { return cmp.Compare(a.To, b.To) })
	return edges
}

// addresses name one end of a connection.
type addresses struct{ local, remote netip.AddrPort }

// connEnd is one end of a connection, with the workers at both ends, kept between readings.
type connEnd[K comparable] struct {
	addresses
	from, to       K
	met            bool   // to is known
	bytes, packets uint64 // that are in sums
	sent           Conn
}

// count adds what was sent since the last count.
func (e *connEnd[K]) count(to sums[K], bytes, packets uint64) {
	if e.met && bytes > e.bytes {
		to.addBytes(e.from, e.to, bytes-e.bytes, max(packets, e.packets)-e.packets)
		e.bytes, e.packets = bytes, packets
	}
}

// The cost of a reading grows with connections and descriptors. It is taken at most once
// a second, and takes at most a part of the time.
const (
	trafficEvery = time.Second
	trafficPart  = 400 // a reading takes at most 1/400 of the time
)

func newTraffic(procfs string, conns func([]Conn) ([]Conn, error)) *traffic {
	return &traffic{conns: conns, procfs: procfs, owner: map[uint64]string{}, ends: map[uint64]*connEnd[string]{}, sums: sums[string]{}}
}

// update updates the sums if a reading is due.
func (t *traffic) update(now time.Time, workers []*worker) error {
	if now.Before(t.next) {
		return nil
	}
	began := time.Now()
	defer func() { t.next = now.Add(max(trafficEvery, trafficPart*time.Since(began))) }()
	var err error
	t.list, err = t.conns(t.list[:0])
	if err != nil {
		return fmt.Errorf("read what workers send to each other: %w", err)
	}
	t.identify(workers)
	t.match()
	for inode, e := range t.ends {
		if e.to != e.from {
			e.count(t.sums, e.sent.SentBytes, e.sent.SentPackets)
		}
		if _, open := t.owner[inode]; !open {
			delete(t.ends, inode)
		}
	}
	there := make(map[string]bool, len(workers))
	for _, w := range workers {
		there[w.key] = true
	}
	t.sums.forget(func(key string) bool { return there[key] })
	return nil
}

// identify finds the worker of each socket, by descriptors if there is a new socket or process.
func (t *traffic) identify(workers []*worker) {
	var pids []int
	for _, w := range workers {
		pids = append(pids, w.pids...)
	}
	slices.Sort(pids)
	open := make(map[uint64]string, len(t.list))
	fresh := !slices.Equal(pids, t.pids)
	for i := range t.list {
		inode := t.list[i].Inode
		owner, known := t.owner[inode]
		open[inode] = owner
		fresh = fresh || !known
	}
	t.owner, t.pids = open, pids
	if !fresh || len(open) == 0 {
		return
	}
	for _, w := range workers {
		for _, pid := range w.pids {
			t.readDescriptors(pid, w.key)
		}
	}
}

// readDescriptors assigns the sockets of a process, if it can be read, to its worker.
func (t *traffic) readDescriptors(pid int, key string) {
	dir := filepath.Join(t.procfs, strconv.Itoa(pid), "fd")
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1) // the names that could be read are enough
	for _, name := range names {
		target, err := os.Readlink(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		number, ok := strings.CutPrefix(target, "socket:[")
		if !ok {
			continue
		}
		inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64)
		if err != nil {
			continue
		}
		if _, tcp := t.owner[inode]; tcp {
			t.owner[inode] = key
		}
	}
}

// match finds the workers at the other ends of the connections.
func (t *traffic) match() {
	at := make(map[addresses]string, len(t.list))
	for i := range t.list {
		if c := &t.list[i]; t.owner[c.Inode] != "" {
			at[addresses{c.Local, c.Remote}] = t.owner[c.Inode]
		}
	}
	for i := range t.list {
		c := &t.list[i]
		owner := t.owner[c.Inode]
		if owner == "" || c.Inode == 0 {
			continue
		}
		e := t.ends[c.Inode]
		if of := (addresses{c.Local, c.Remote}); e == nil || e.addresses != of || e.from != owner {
			e = &connEnd[string]{addresses: of, from: owner}
			t.ends[c.Inode] = e
		}
		e.sent = *c
		if other := at[addresses{c.Remote, c.Local}]; other != "" {
			e.to, e.met = other, true
		}
	}
}

// peers returns the sockets of a worker with the other end on another node.
func (t *traffic) peers(key string) []gempba.Peer {
	var out []gempba.Peer
	for _, e := range t.ends {
		if e.from == key && !e.met && !e.remote.Addr().IsLoopback() {
			out = append(out, gempba.Peer{Local: e.local, Remote: e.remote, Bytes: e.sent.SentBytes, Count: e.sent.SentPackets})
		}
	}
	slices.SortFunc(out, func(a, b gempba.Peer) int { return cmp.Or(a.Local.Compare(b.Local), a.Remote.Compare(b.Remote)) })
	return out[:min(len(out), gempba.MaxPeers)]
}
