package telemetry

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/resource-tracker/rt/format/gempba"
)

// client is one connection. Its lines wait in a channel, which the server closes.
type client struct {
	conn    net.Conn
	name    string
	trusted bool
	lines   chan []byte
}

// write sends the queued lines until the server drops the client.
func (s *Server) write(c *client) {
	for line := range c.lines {
		if _, err := c.conn.Write(line); err != nil {
			s.left(c, gone(err))
			return
		}
	}
}

// read reads the client's control lines until it disconnects.
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

// control passes a line to the broadcast. Lines that arrive faster than the broadcast
// handles them are dropped.
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

// gone is why a connection failed, nil if the client disconnected.
func gone(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return fmt.Errorf("its connection failed: %w", err)
}
