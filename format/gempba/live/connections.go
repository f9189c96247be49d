package live

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

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

// ConnReader reads the TCP connections of this node and their bytes and packets from the kernel's inet_diag
// (sock_diag(7)). Unix sockets count no bytes. It reads the network namespace of the caller, and needs no
// privileges. One goroutine uses it.
type ConnReader struct {
	fd      int
	seq     uint32
	request []byte
	answer  []byte
}

// MaxConns limits the number of ends: reading more of them repeatedly costs too much.
const MaxConns = 1 << 16

// ErrTooMany means that there are more than MaxConns ends.
var ErrTooMany = fmt.Errorf("there are more than %d TCP connections", MaxConns)

// errOld means a kernel before 4.19, which counts no sent bytes.
var errOld = errors.New("this kernel does not count the bytes that a connection sends: bytes_sent of tcp_info is missing (Linux 4.19)")

// OpenConns returns a reader.
func OpenConns() (*ConnReader, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("open a socket to read TCP connections: %w", err)
	}
	timeout := unix.Timeval{Sec: 1} // the kernel answers within sendto
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return nil, errors.Join(fmt.Errorf("open a socket to read TCP connections: %w", err), unix.Close(fd))
	}
	return &ConnReader{fd: fd, answer: make([]byte, 32<<10)}, nil
}

// Close closes the descriptor.
func (r *ConnReader) Close() error { return os.NewSyscallError("close", unix.Close(r.fd)) }

// Read appends the open ends, of IPv4 and IPv6, to dst. Mapped IPv4 addresses are
// unmapped.
func (r *ConnReader) Read(dst []Conn) ([]Conn, error) {
	var err error
	for _, family := range [...]uint8{unix.AF_INET, unix.AF_INET6} {
		dst, err = r.dump(dst, family)
		if err != nil {
			return dst, fmt.Errorf("read TCP connections from the kernel: %w", err)
		}
	}
	return dst, nil
}

// Constants of linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
const (
	headerSize    = unix.SizeofNlMsghdr
	requestSize   = 56 // struct inet_diag_req_v2
	messageSize   = 72 // struct inet_diag_msg
	byFamily      = unix.SOCK_DIAG_BY_FAMILY
	diagInfo      = 2 // INET_DIAG_INFO
	wantInfo      = 1 << (diagInfo - 1)
	stateMask     = 1<<unix.BPF_TCP_ESTABLISHED | 1<<unix.BPF_TCP_FIN_WAIT1 | 1<<unix.BPF_TCP_FIN_WAIT2 | 1<<unix.BPF_TCP_CLOSE_WAIT
	idOffset      = 4  // of struct inet_diag_sockid in inet_diag_msg
	inodeOffset   = 68 // of idiag_inode
	attributeSize = 4  // struct rtattr
)

func (r *ConnReader) dump(dst []Conn, family uint8) ([]Conn, error) {
	r.seq++
	r.request = append(r.request[:0], make([]byte, headerSize+requestSize)...)
	e := binary.NativeEndian
	e.PutUint32(r.request, uint32(len(r.request)))
	e.PutUint16(r.request[4:], byFamily)
	e.PutUint16(r.request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	e.PutUint32(r.request[8:], r.seq)
	body := r.request[headerSize:]
	body[0], body[1], body[2] = family, unix.IPPROTO_TCP, wantInfo
	e.PutUint32(body[4:], stateMask)
	if err := unix.Sendto(r.fd, r.request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return dst, os.NewSyscallError("sendto", err)
	}
	for {
		n, _, err := unix.Recvfrom(r.fd, r.answer, unix.MSG_TRUNC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return dst, os.NewSyscallError("recvfrom", err)
		case n > len(r.answer):
			return dst, fmt.Errorf("an answer of %d bytes", n)
		}
		var done bool
		dst, done, err = parseConns(dst, r.answer[:n], r.seq)
		if done || err != nil {
			return dst, err
		}
	}
}

// parseConns parses one datagram, without messages of an older request; done: it is the last one.
func parseConns(dst []Conn, b []byte, seq uint32) (_ []Conn, done bool, err error) {
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return dst, false, fmt.Errorf("a datagram of %d bytes with malformed messages: %w", len(b), err)
	}
	for _, m := range messages {
		switch {
		case m.Header.Seq != seq:
		case m.Header.Type == unix.NLMSG_DONE:
			return dst, true, nil
		case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
			return dst, false, unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
		case m.Header.Type == byFamily:
			c, err := parseConn(m.Data)
			if err != nil {
				return dst, false, err
			}
			dst = append(dst, c)
			if len(dst) > MaxConns {
				return dst, false, ErrTooMany
			}
		}
	}
	return dst, false, nil
}

// parseConn parses a struct inet_diag_msg and its attributes.
func parseConn(b []byte) (Conn, error) {
	if len(b) < messageSize {
		return Conn{}, fmt.Errorf("a connection of %d bytes", len(b))
	}
	id, size := b[idOffset:], 4
	if b[0] == unix.AF_INET6 {
		size = 16
	}
	address := func(port, at int) netip.AddrPort {
		a, _ := netip.AddrFromSlice(id[at : at+size]) // 4 or 16 bytes are valid
		return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(id[port:]))
	}
	e := binary.NativeEndian
	c := Conn{Local: address(0, 4), Remote: address(2, 20), Inode: uint64(e.Uint32(b[inodeOffset:]))}
	for b = b[messageSize:]; len(b) >= attributeSize; {
		size := int(e.Uint16(b))
		if size < attributeSize || size > len(b) {
			return Conn{}, fmt.Errorf("an attribute of %d bytes in a connection that has %d left", size, len(b))
		}
		if e.Uint16(b[2:]) == diagInfo {
			return c, c.count(b[attributeSize:size])
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return c, nil // a socket that was just closed has no tcp_info
}

// count parses a struct tcp_info, which is longer in newer kernels.
func (c *Conn) count(info []byte) error {
	var i unix.TCPInfo
	if len(info) < int(unsafe.Offsetof(i.Bytes_retrans))+8 {
		return errOld
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&i)), unsafe.Sizeof(i)), info)
	c.SentBytes = i.Bytes_sent - min(i.Bytes_retrans, i.Bytes_sent)
	c.SentPackets = uint64(i.Data_segs_out - min(i.Total_retrans, i.Data_segs_out))
	return nil
}
