package telemetry

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/resource-tracker/rt/format/gempba"
)

// client is one connection. Its lines wait in a channel; the server closes it.
type client struct {
	conn    net.Conn
	name    string
	trusted bool
	lines   chan []byte
}

// write sends what is queued, until the server drops the client.
func (s *Server) write(c *client) {
	for line := range c.lines {
		if _, err := c.conn.Write(line); err != nil {
			s.left(c, gone(err))
			return
		}
	}
}

// read takes the client's control lines, until it leaves.
func (s *Server) read(c *client) {
	var lines gempba.ControlLines
	b := make([]byte, 1024)
	for {
		n, err := c.conn.Read(b)
		if bad := lines.Take(b[:n], func(control gempba.Control) { s.control(Control{control, c.trusted}) }); bad != nil {
			s.left(c, bad)
			return
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			s.left(c, lines.Close())
			return
		default:
			s.left(c, gone(err))
			return
		}
	}
}

// control hands a line to the broadcast. Where a client sends them faster than they
// are obeyed, the later ones are lost, as on a line that is cut.
func (s *Server) control(c Control) {
	select {
	case s.controls <- c:
	default:
	}
}

func (s *Server) left(c *client, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(c, why)
}

// gone is why a connection failed, nil where the client just went away.
func gone(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return fmt.Errorf("its connection failed: %w", err)
}
