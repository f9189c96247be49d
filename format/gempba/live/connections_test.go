package live

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
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
		list, err := ReadConns(nil)
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

// A kernel that counts packets but no bytes is too old.
func TestConnOfAnOldKernel(t *testing.T) {
	end := &netlink.InetDiagTCPInfoResp{InetDiagMsg: &netlink.Socket{INode: 7}}
	if c, err := newConn(end); err != nil || c.Inode != 7 {
		t.Errorf("without figures: %+v, %v", c, err)
	}
	end.TCPInfo = &netlink.TCPInfo{Data_segs_out: 3}
	if _, err := newConn(end); !errors.Is(err, errOld) {
		t.Errorf("an old kernel: %v", err)
	}
}
