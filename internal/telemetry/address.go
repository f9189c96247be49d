package telemetry

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
)

// CheckHostPort says what is wrong with a HOST:PORT that a person has written, and
// gives an example.
func CheckHostPort(text, example string) error {
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

// knownPort takes the name of a service too.
func knownPort(port string) bool {
	_, err := net.LookupPort("tcp", port)
	return err == nil && port != ""
}

// ListenError is what net.Listen says at an address, in words that say what to do.
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
		what = "ports below 1024 are root's: choose another port"
	case errors.As(err, &dns):
		what = "no address is known of this name: give one of this machine, as 127.0.0.1"
	}
	if what != "" {
		return &listenError{what, err}
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err // op says again where
	}
	return err
}

// listenError is a cause in other words.
type listenError struct {
	what  string
	cause error
}

func (e *listenError) Error() string { return e.what }
func (e *listenError) Unwrap() error { return e.cause }
