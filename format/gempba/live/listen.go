package live

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/hostport"
	"github.com/resource-tracker/rt/internal/recovery"
)

// Address is where to listen: host:port, or unix:PATH.
type Address struct{ network, text string }

// ParseAddress parses HOST:PORT or unix:PATH.
func ParseAddress(text string) (Address, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		if !filepath.IsAbs(path) {
			return Address{}, fmt.Errorf("%q: give the socket's absolute path, as unix:/run/user/1000/rt.sock", text)
		}
		return Address{"unix", path}, nil
	}
	if err := hostport.Check(text, "127.0.0.1:9000"); err != nil {
		return Address{}, fmt.Errorf("%w, or unix:PATH", err)
	}
	return Address{"tcp", text}, nil
}

// String returns the address in the form of ParseAddress.
func (a Address) String() string {
	if a.network == "unix" {
		return "unix:" + a.text
	}
	return a.text
}

// Dial connects to the address.
func (a Address) Dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, a.network, a.text)
}

// Listener waits for clients at one address.
type Listener struct {
	l     net.Listener
	owner int // of a unix socket: the user next to root that may connect
}

// Listen listens at an address. It replaces a stale unix socket; only owner and root may connect to one.
func Listen(ctx context.Context, a Address, owner int) (*Listener, error) {
	var c net.ListenConfig
	if a.network == "unix" {
		if err := removeStale(ctx, a); err != nil {
			return nil, err
		}
		mode := uint32(0o600)
		if owner != os.Geteuid() { // identify checks the user
			mode = 0o666
			defer unix.Umask(unix.Umask(0))
		}
		// The mode is set before the socket has a name: a file that replaces it never changes.
		c.Control = func(_, _ string, conn syscall.RawConn) error {
			var err error
			if failed := conn.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), mode) }); failed != nil {
				return failed
			}
			return err
		}
	}
	l, err := c.Listen(ctx, a.network, a.text)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", a, hostport.ListenError(err))
	}
	return &Listener{l, owner}, nil
}

// removeStale removes a socket without a listener.
func removeStale(ctx context.Context, a Address) error {
	st, err := os.Lstat(a.text)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for an older socket: %w", err)
	}
	if st.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("listen at %s: there is a file that is no socket; name another path", a)
	}
	conn, err := a.Dial(ctx)
	if err == nil {
		_ = conn.Close() // this was only a check
		return fmt.Errorf("listen at %s: another program does; name another path", a)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("listen at %s: %w", a, err)
	}
	return os.Remove(a.text)
}

// Addr returns the address for clients.
func (l *Listener) Addr() string {
	if l.l.Addr().Network() == "unix" {
		return "unix:" + l.l.Addr().String()
	}
	return l.l.Addr().String()
}

// Public reports whether other machines can connect.
func (l *Listener) Public() bool {
	tcp, ok := l.l.Addr().(*net.TCPAddr)
	return ok && !tcp.IP.IsLoopback()
}

// Close stops listening. The clients stay.
func (l *Listener) Close() error { return l.l.Close() }

// Serve accepts clients and broadcasts until ctx is done.
func (s *Server) Serve(ctx context.Context, l *Listener) {
	var accepting sync.WaitGroup
	accepting.Go(func() {
		defer recovery.Handle(s.log)
		s.Accept(ctx, l)
	})
	s.Run(ctx)
	accepting.Wait()
}

// Accept serves clients until the listener is closed or ctx is done.
func (s *Server) Accept(ctx context.Context, l *Listener) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // Accept returns its error
	defer stop()
	for {
		conn, err := l.l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			s.log(fmt.Errorf("wait for clients of the telemetry: %w", err))
			if !recovery.Pause(ctx, time.Second) { // perhaps no descriptor is left
				return
			}
			continue
		}
		name, trusted, err := l.identify(conn)
		if err != nil {
			_ = conn.Close()
			s.log(fmt.Errorf("the telemetry's client %s is refused: %w", name, err))
			continue
		}
		s.Add(conn, name, trusted)
	}
}

// identify identifies a client: at a unix socket by SO_PEERCRED.
func (l *Listener) identify(conn net.Conn) (name string, trusted bool, err error) {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return conn.RemoteAddr().String(), false, nil
	}
	raw, err := local.SyscallConn()
	if err != nil {
		return "of a socket", false, err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return "of a socket", false, err
	}
	if failed != nil {
		return "of a socket", false, fmt.Errorf("ask the kernel for its user: %w", failed)
	}
	return fmt.Sprintf("of user %d, process %d", peer.Uid, peer.Pid), true, mayWatch(int(peer.Uid), l.owner)
}

// mayWatch returns an error for all users but root and the owner.
func mayWatch(uid, owner int) error {
	if uid != 0 && uid != owner {
		return errors.New("only the job's owner and root may watch it")
	}
	return nil
}
