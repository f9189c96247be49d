package live

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt/format/gempba"
)

// TestMain makes the test program a task that sends to another one.
func TestMain(m *testing.M) {
	if address := os.Getenv("RT_TEST_TALK_TO"); address != "" {
		talk(address)
		return
	}
	os.Exit(m.Run())
}

// talk sends 5 MiB, prints a line, and holds the connection until its input ends.
func talk(address string) {
	conn, err := net.Dial("tcp", address)
	if err == nil {
		_, err = conn.Write(make([]byte, 5<<20))
	}
	fmt.Println("sent", err)
	_, _ = os.Stdin.Read(make([]byte, 1))
	runtime.KeepAlive(conn) // which a collection would close
}

// Two processes are connected over TCP: the one that sends has the edge.
func TestEdgesOfProcesses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RT_TEST_TALK_TO="+l.Addr().String())
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil || cmd.Start() != nil {
		t.Fatal(err1, err2)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for got, b := 0, make([]byte, 1<<16); got < 5<<20; {
		n, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		got += n
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	reader, err := OpenConns()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	n := NewNode(NodeOptions{
		Hostname: "n1", Procfs: "/proc", Sysfs: "/sys", Conns: reader.Read, Peers: true, Warn: func(err error) { t.Error(err) },
		Groups: func() ([]Group, error) {
			return []Group{{Key: "receiver", PIDs: []int{os.Getpid()}}, {Key: "sender", PIDs: []int{cmd.Process.Pid}}}, nil
		},
	})
	defer n.Close()
	frames := n.Workers(time.Now())
	if len(frames) != 2 || len(frames[0].EdgesOut) != 0 || len(frames[1].EdgesOut) != 1 || len(frames[1].Peers) != 0 {
		t.Fatalf("the workers are %+v", frames)
	}
	if e := frames[1].EdgesOut[0]; e.To != 0 || e.Bytes != 5<<20 || e.Count == 0 || e.Count > 5<<20 {
		t.Errorf("the edge is %+v", e)
	}
}

// scripted are connections that a test sets.
type scripted struct {
	list []Conn
	err  error
}

func (s *scripted) Read(dst []Conn) ([]Conn, error) {
	return append(dst, s.list...), s.err
}

func end(inode uint64, local, remote string, sent uint64) Conn {
	return Conn{Local: netip.MustParseAddrPort(local), Remote: netip.MustParseAddrPort(remote), Inode: inode, SentBytes: sent, SentPackets: sent / 10}
}

// descriptors makes a /proc in which processes hold
func descriptors(t *testing.T, of map[string][]uint64) string {
	t.Helper()
	dir := t.TempDir()
	for pid, inodes := range of {
		if err := os.MkdirAll(dir+"/"+pid+"/fd", 0o755); err != nil {
			t.Fatal(err)
		}
		for i, inode := range inodes {
			if err := os.Symlink(fmt.Sprintf("socket:[%d]", inode), fmt.Sprintf("%s/%s/fd/%d", dir, pid, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// Counts go on when a connection ends and another one comes, and traffic to
// unknown addresses is a peer.
func TestTraffic(t *testing.T) {
	c := &scripted{}
	tr := newTraffic(descriptors(t, map[string][]uint64{"10": {1, 5, 7}, "11": {2, 6, 8}}), c.Read)
	workers := []*worker{{id: 0, key: "a", pids: []int{10}}, {id: 1, key: "b", pids: []int{11}}}
	var seen []string
	now := time.Now()
	for _, list := range [][]Conn{
		{end(1, "10.0.0.1:1", "10.0.0.1:2", 100), end(2, "10.0.0.1:2", "10.0.0.1:1", 50), end(7, "10.0.0.1:9", "10.0.0.2:9", 70), end(8, "127.0.0.1:1", "127.0.0.1:9", 1), end(99, "10.0.0.1:7", "10.0.0.9:7", 9)},
		{end(1, "10.0.0.1:1", "10.0.0.1:2", 300), end(7, "10.0.0.1:9", "10.0.0.2:9", 80)}, // b has closed its end
		{end(5, "10.0.0.1:3", "10.0.0.1:4", 40), end(6, "10.0.0.1:4", "10.0.0.1:3", 0)},
	} {
		c.list = list
		if err := tr.update(now, workers); err != nil {
			t.Fatal(err)
		}
		ids := map[string]uint32{"a": 0, "b": 1}
		id := func(key string) (uint32, bool) { n, ok := ids[key]; return n, ok }
		line := fmt.Sprint(tr.sums.edges("a", id), tr.sums.edges("b", id))
		for _, p := range append(tr.peers("a"), tr.peers("b")...) {
			line += fmt.Sprint(" ", p.Remote, " ", p.Bytes)
		}
		seen = append(seen, line)
		now = tr.next
	}
	want := []string{
		"[{1 100 10}] [{0 50 5}] 10.0.0.2:9 70",
		"[{1 300 30}] [{0 50 5}] 10.0.0.2:9 80",
		"[{1 340 34}] [{0 50 5}]",
	}
	if got := strings.Join(seen, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if err := tr.update(now, workers[:1]); err != nil || len(tr.sums) != 1 || len(tr.sums["a"]) != 0 {
		t.Errorf("without b: %v, %v", tr.sums, err)
	}
}

// A kernel without the figures is asked once.
func TestTrafficThatIsNotKnown(t *testing.T) {
	var warned []error
	n := NewNode(NodeOptions{
		Procfs: "/proc", Sysfs: "/sys", Conns: (&scripted{err: ErrTooMany}).Read, Warn: func(err error) { warned = append(warned, err) },
		Groups: func() ([]Group, error) { return []Group{{Key: "a", PIDs: []int{os.Getpid()}}}, nil },
	})
	defer n.Close()
	for range 3 {
		if f := n.Workers(time.Now()); len(f) != 1 || len(f[0].EdgesOut) != 0 {
			t.Errorf("workers %+v", f)
		}
	}
	if len(warned) != 1 || !strings.Contains(warned[0].Error(), "too many") && !strings.Contains(warned[0].Error(), "more than") {
		t.Errorf("warned %v", warned)
	}
}

// Ends on two nodes meet, also when one is reported first, and a port that is used
// again begins at zero.
func TestCrossing(t *testing.T) {
	peer := func(local, remote string, bytes uint64) []gempba.Peer {
		return []gempba.Peer{{Local: netip.MustParseAddrPort(local), Remote: netip.MustParseAddrPort(remote), Bytes: bytes, Count: bytes / 10}}
	}
	of := func(peers []gempba.Peer) *gempba.Envelope {
		return &gempba.Envelope{Workers: []gempba.WorkerFrame{{WorkerID: 3, Peers: peers}}}
	}
	c := newCrossing()
	var seen []string
	for _, look := range [][2]uint64{{100, 0}, {150, 20}, {150, 40}, {10, 40}, {10, 5}} {
		here, there := peer("10.0.0.1:1", "10.0.0.2:2", look[0]), peer("10.0.0.2:2", "10.0.0.1:1", look[1])
		if look[1] == 0 {
			there = nil
		}
		c.update([]part{{"", of(here)}, {"n2", of(there)}}, func(jointID) bool { return true })
		ids := func(id jointID) (uint32, bool) { return map[jointID]uint32{{"", 3}: 0, {"n2", 3}: 1}[id], true }
		seen = append(seen, fmt.Sprint(c.sums.edges(jointID{"", 3}, ids), c.sums.edges(jointID{"n2", 3}, ids)))
	}
	want := "[] []\n[{1 150 15}] [{0 20 2}]\n[{1 150 15}] [{0 40 4}]\n[{1 160 16}] [{0 40 4}]\n[{1 160 16}] [{0 45 4}]"
	if got := strings.Join(seen, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	c.update(nil, func(jointID) bool { return false })
	if len(c.ends) != 0 || len(c.sums) != 0 {
		t.Errorf("it remembers %v, %v", c.ends, c.sums)
	}
}

func TestHeaviest(t *testing.T) {
	var edges []gempba.Edge
	for i := range uint32(100) {
		edges = append(edges, gempba.Edge{To: i, Bytes: uint64(i % 50)})
	}
	got := heaviest(edges)
	if len(got) != maxEdges || got[0].To != 18 || got[len(got)-1].To != 99 {
		t.Errorf("%d edges, from %v to %v", len(got), got[0], got[len(got)-1])
	}
}
