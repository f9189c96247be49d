// Package hostport explains what is wrong with an address to listen at.
package hostport

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"

	"github.com/resource-tracker/rt/internal/errkind"
)

// Check checks a HOST:PORT that a user wrote. The error has an example.
func Check(text, example string) error {
	host, port, err := net.SplitHostPort(text)
	what := ""
	switch {
	case err != nil && strings.Count(text, ":") > 1:
		what = "an IPv6 address stands in brackets, as [::1]:9000: "
	case err != nil:
	case !knownPort(port):
		what = "the port is no number from 0 to 65535: "
	case strings.ContainsAny(host, " /\t\n"):
		what = "the host is neither a name nor an address: "
	default:
		return nil
	}
	return fmt.Errorf("%q: %sgive HOST:PORT, such as %s", text, what, example)
}

// knownPort also accepts the name of a service.
func knownPort(port string) bool {
	_, err := net.LookupPort("tcp", port)
	return err == nil && port != ""
}

// ListenError adds what to do to an error of net.Listen.
func ListenError(err error) error {
	var dns *net.DNSError
	what := ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		what = "another program has this address: stop it, or choose another port"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		what = "this machine has no such address: give one of its own, 127.0.0.1 for this machine alone, or 0.0.0.0 for all of them"
	case errors.Is(err, syscall.EACCES):
		what = "only root may listen at ports below 1024: choose another port"
	case errors.As(err, &dns):
		what = "this name has no address: give an address of this machine, such as 127.0.0.1"
	}
	if what != "" {
		return errkind.With(err, errors.New(what))
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err // the text of op repeats the address
	}
	return err
}

// IsLoopback reports whether only this machine can connect to an address.
func IsLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// CrossesNetwork reports whether requests to an http URL go to another machine without encryption.
func CrossesNetwork(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Hostname() == "localhost" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip == nil || !ip.IsLoopback()
}
