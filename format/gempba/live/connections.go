package live

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Conn is one end of a connection.
type Conn struct {
	Local, Remote netip.AddrPort
	Inode         uint64 // of the socket: "socket:[N]" in /proc/<pid>/fd; 0 before accept(2)
	// Bytes and packets with data that this end has sent, without retransmissions. In
	// tcp_info: bytes_sent - bytes_retrans, data_segs_out - total_retrans.
	SentBytes, SentPackets uint64
}

// MaxConns limits the number of ends: reading more of them repeatedly costs too much.
const MaxConns = 1 << 16

// ErrTooMany means that there are more than MaxConns ends.
var ErrTooMany = fmt.Errorf("there are more than %d TCP connections", MaxConns)

// errOld means a kernel before 4.19, which counts no sent bytes.
var errOld = errors.New("this kernel does not count the bytes that a connection sends: bytes_sent of tcp_info is missing (Linux 4.19)")

// ReadConns appends the open TCP connections of this node, of IPv4 and IPv6, to dst, with the bytes and packets
// that the kernel counts (sock_diag(7)). Mapped IPv4 addresses are unmapped. Unix sockets count no bytes. It reads
// the network namespace of the caller, and needs no privileges.
func ReadConns(dst []Conn) ([]Conn, error) {
	for _, family := range [...]uint8{unix.AF_INET, unix.AF_INET6} {
		ends, err := netlink.SocketDiagTCPInfo(family)
		if err != nil {
			return dst, fmt.Errorf("read TCP connections from the kernel: %w", err)
		}
		for _, e := range ends {
			switch e.InetDiagMsg.State {
			case netlink.TCP_ESTABLISHED, netlink.TCP_FIN_WAIT1, netlink.TCP_FIN_WAIT2, netlink.TCP_CLOSE_WAIT:
			default:
				continue
			}
			if len(dst) == MaxConns {
				return dst, ErrTooMany
			}
			c, err := newConn(e)
			if err != nil {
				return dst, err
			}
			dst = append(dst, c)
		}
	}
	return dst, nil
}

func newConn(e *netlink.InetDiagTCPInfoResp) (Conn, error) {
	id := &e.InetDiagMsg.ID
	address := func(ip net.IP, port uint16) netip.AddrPort {
		a, _ := netip.AddrFromSlice(ip) // 4 or 16 bytes are valid
		return netip.AddrPortFrom(a.Unmap(), port)
	}
	c := Conn{
		Local: address(id.Source, id.SourcePort), Remote: address(id.Destination, id.DestinationPort),
		Inode: uint64(e.InetDiagMsg.INode),
	}
	i := e.TCPInfo
	if i == nil {
		return c, nil // a socket that was just closed has no tcp_info
	}
	if i.Data_segs_out > 0 && i.Bytes_sent == 0 {
		return c, errOld
	}
	c.SentBytes = i.Bytes_sent - min(i.Bytes_retrans, i.Bytes_sent)
	c.SentPackets = uint64(i.Data_segs_out - min(i.Total_retrans, i.Data_segs_out))
	return c, nil
}
