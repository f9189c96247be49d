package live

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// pair is a connection to ourselves.
func pair(t *testing.T, address string) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// inodeOf returns the inode of the connection's socket.
func inodeOf(t *testing.T, c net.Conn) (inode uint64) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		var st unix.Stat_t
		if err := unix.Fstat(int(fd), &st); err != nil {
			t.Error(err)
		}
		inode = st.Ino
	}); err != nil {
		t.Fatal(err)
	}
	return inode
}

func portOf(t *testing.T, a net.Addr) netip.AddrPort {
	t.Helper()
	p, err := netip.ParseAddrPort(a.String())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What the kernel says of a connection is what went through it.
func TestTheKernelCountsConnections(t *testing.T) {
	r, err := OpenConns()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		client, server := pair(t, address)
		const there, back = 3<<20 + 7, 1000
		go client.Write(make([]byte, there))
		if _, err := io.CopyN(io.Discard, server, there); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Write(make([]byte, back)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, client, back); err != nil {
			t.Fatal(err)
		}
		list, err := r.Read(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			conn net.Conn
			sent uint64
		}{{client, there}, {server, back}} {
			local, remote := portOf(t, c.conn.LocalAddr()), portOf(t, c.conn.RemoteAddr())
			at := slices.IndexFunc(list, func(e Conn) bool { return e.Local == local && e.Remote == remote })
			if at < 0 {
				t.Fatalf("%s > %s is not among the %d connections", local, remote, len(list))
			}
			e := list[at]
			if e.SentBytes != c.sent || e.SentPackets == 0 || e.SentPackets > c.sent || e.Inode != inodeOf(t, c.conn) {
				t.Errorf("%+v, want %d bytes of inode %d", e, c.sent, inodeOf(t, c.conn))
			}
		}
	}
}

// message is a netlink message of number seq.
func message(kind uint16, seq uint32, body ...byte) []byte {
	b := make([]byte, headerSize, headerSize+len(body)+3)
	binary.NativeEndian.PutUint32(b, uint32(headerSize+len(body)))
	binary.NativeEndian.PutUint16(b[4:], kind)
	binary.NativeEndian.PutUint32(b[8:], seq)
	b = append(b, body...)
	return append(b, make([]byte, -len(b)&3)...)
}

func attribute(kind uint16, body ...byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(attributeSize+len(body)))
	return append(binary.NativeEndian.AppendUint16(b, kind), body...)
}

func TestParseConns(t *testing.T) {
	conn := make([]byte, messageSize)
	conn[0] = unix.AF_INET
	ok := message(byFamily, 1, append(slices.Clone(conn), attribute(diagInfo, make([]byte, 300)...)...)...)
	old := message(byFamily, 1, append(slices.Clone(conn), attribute(diagInfo, make([]byte, 120)...)...)...)
	refused := message(unix.NLMSG_ERROR, 1, 0xff, 0xff, 0xff, 0xff) // -1, EPERM
	done := message(unix.NLMSG_DONE, 1, 0, 0, 0, 0)
	for _, c := range []struct {
		name string
		b    []byte
		n    int
		done bool
		err  bool
	}{
		{"two and no end", append(slices.Clone(ok), ok...), 2, false, false},
		{"one and the end", append(slices.Clone(ok), done...), 1, true, false},
		{"of an older question", message(byFamily, 7, conn...), 0, false, false},
		{"without figures", message(byFamily, 1, conn...), 1, false, false},
		{"an old kernel", old, 0, false, true},
		{"refused", refused, 0, false, true},
		{"cut", ok[:len(ok)-8], 0, false, true},
		{"a short connection", message(byFamily, 1, 2, 0), 0, false, true},
		{"a bad attribute", message(byFamily, 1, append(slices.Clone(conn), 1, 0, 2, 0)...), 0, false, true},
		{"nothing", nil, 0, false, false},
	} {
		list, done, err := parseConns(nil, c.b, 1)
		if len(list) != c.n || done != c.done || (err != nil) != c.err {
			t.Errorf("%s: %d connections, done %t, %v", c.name, len(list), done, err)
		}
	}
}

func FuzzParseConns(f *testing.F) {
	conn := make([]byte, messageSize)
	conn[0] = unix.AF_INET6
	f.Add(message(byFamily, 1, append(conn, attribute(diagInfo, make([]byte, 240)...)...)...))
	f.Add(append(message(byFamily, 1, conn...), message(unix.NLMSG_DONE, 1)...))
	f.Add(message(unix.NLMSG_ERROR, 1, 1, 2, 3, 4))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, _, err := parseConns(nil, b, 1)
		if err == nil && len(list) > len(b)/messageSize {
			t.Errorf("%d connections of %d bytes", len(list), len(b))
		}
	})
}
