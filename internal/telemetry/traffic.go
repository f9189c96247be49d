package telemetry

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

	"github.com/resource-tracker/rt/collect/sockets"
	"github.com/resource-tracker/rt/format/gempba"
)

// Conns appends the ends of TCP connections that are open on this node: a
// sockets.Reader.
type Conns interface {
	Read([]sockets.Conn) ([]sockets.Conn, error)
}

// traffic is what workers send to each other over TCP: the sockets of their processes,
// matched by their addresses. What goes through a socket between the last look and its
// end is not seen, nor what goes through memory, pipes or another kind of network.
type traffic struct {
	conns  Conns
	procfs string

	next  time.Time // of the next look
	list  []sockets.Conn
	pids  []int             // of the workers, when their descriptors were read
	owner map[uint64]string // worker of each socket; empty: of none
	ends  map[uint64]*connEnd
	sums  sums[string]
}

// sums are bytes and packets by sender and receiver.
type sums[K comparable] map[K]map[K]*gempba.Edge

// add counts what one has sent to another.
func (s sums[K]) add(from, to K, bytes, packets uint64) {
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

// forget leaves out those that are gone.
func (s sums[K]) forget(there func(K) bool) {
	for from, all := range s {
		if !there(from) {
			delete(s, from)
			continue
		}
		maps.DeleteFunc(all, func(to K, _ *gempba.Edge) bool { return !there(to) })
	}
}

// maxEdges is how many edges of a worker are told, those with most bytes: a line has
// room for so many of each worker that it may have.
const maxEdges = 64

// of are the edges of one, by the ids of their receivers.
func (s sums[K]) of(from K, id func(K) (uint32, bool)) []gempba.Edge {
	out := []gempba.Edge{}
	for to, sum := range s[from] {
		if n, ok := id(to); ok && sum.Count > 0 {
			out = append(out, gempba.Edge{To: n, Bytes: sum.Bytes, Count: sum.Count})
		}
	}
	return heaviest(out)
}

// heaviest leaves maxEdges, in the order of their receivers.
func heaviest(edges []gempba.Edge) []gempba.Edge {
	slices.SortFunc(edges, func(a, b gempba.Edge) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.To, b.To)) })
	edges = edges[:min(len(edges), maxEdges)]
	slices.SortFunc(edges, func(a, b gempba.Edge) int { return cmp.Compare(a.To, b.To) })
	return edges
}

// connEnd is a socket of a worker over the looks.
type connEnd struct {
	local, remote  netip.AddrPort
	from, to       string // to is empty until it is known
	bytes, packets uint64 // that are in sums
	sent           sockets.Conn
}

// A look costs what there are connections and descriptors: it is taken once a second
// at most, and takes no more than a part of the time.
const (
	trafficEvery = time.Second
	trafficPart  = 400 // of the time one look may take one
)

func newTraffic(procfs string, conns Conns) *traffic {
	return &traffic{conns: conns, procfs: procfs, owner: map[uint64]string{}, ends: map[uint64]*connEnd{}, sums: sums[string]{}}
}

// look brings the sums up to date, where it is time to.
func (t *traffic) look(now time.Time, workers []*worker) error {
	if now.Before(t.next) {
		return nil
	}
	began := time.Now()
	defer func() { t.next = now.Add(max(trafficEvery, trafficPart*time.Since(began))) }()
	var err error
	t.list, err = t.conns.Read(t.list[:0])
	if err != nil {
		return fmt.Errorf("what workers send to each other is not known: %w", err)
	}
	t.identify(workers)
	t.match()
	for inode, e := range t.ends {
		if e.to != "" && e.to != e.from {
			t.count(e)
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

// identify finds the worker of each socket. Descriptors are read only where there is a
// socket or a process that was not there before.
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
		who, known := t.owner[inode]
		open[inode] = who
		fresh = fresh || !known
	}
	t.owner = open
	if !fresh || len(open) == 0 {
		t.pids = pids
		return
	}
	t.pids = pids
	for _, w := range workers {
		for _, pid := range w.pids {
			t.readDescriptors(pid, w.key)
		}
	}
}

// readDescriptors gives the sockets of a process to its worker. Those of a process
// that has just ended, or that may not be read, stay nobody's.
func (t *traffic) readDescriptors(pid int, key string) {
	dir := filepath.Join(t.procfs, strconv.Itoa(pid), "fd")
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1) // what could be read of them will do
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

// match finds who is at the other end of the workers' sockets.
func (t *traffic) match() {
	at := make(map[addresses]string, len(t.list))
	for i := range t.list {
		if c := &t.list[i]; t.owner[c.Inode] != "" {
			at[addresses{c.Local, c.Remote}] = t.owner[c.Inode]
		}
	}
	for i := range t.list {
		c := &t.list[i]
		who := t.owner[c.Inode]
		if who == "" || c.Inode == 0 {
			continue
		}
		e := t.ends[c.Inode]
		if e == nil || e.local != c.Local || e.remote != c.Remote || e.from != who {
			e = &connEnd{local: c.Local, remote: c.Remote, from: who}
			t.ends[c.Inode] = e
		}
		e.sent = *c
		if other := at[addresses{c.Remote, c.Local}]; other != "" {
			e.to = other
		}
	}
}

// count adds what has been sent since it was counted last.
func (t *traffic) count(e *connEnd) {
	if e.sent.SentBytes <= e.bytes {
		return
	}
	t.sums.add(e.from, e.to, e.sent.SentBytes-e.bytes, max(e.sent.SentPackets, e.packets)-e.packets)
	e.bytes, e.packets = e.sent.SentBytes, e.sent.SentPackets
}

// peers are the worker's sockets whose other end is not on this node.
func (t *traffic) peers(key string) []gempba.Peer {
	var out []gempba.Peer
	for _, e := range t.ends {
		if e.from == key && e.to == "" && !e.remote.Addr().IsLoopback() {
			out = append(out, gempba.Peer{Local: e.local, Remote: e.remote, Bytes: e.sent.SentBytes, Count: e.sent.SentPackets})
		}
	}
	slices.SortFunc(out, func(a, b gempba.Peer) int { return cmp.Or(a.Local.Compare(b.Local), a.Remote.Compare(b.Remote)) })
	return out[:min(len(out), gempba.MaxPeers)]
}
