package upload

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
)

// NoAnswer returns the Error of a request without a complete answer.
func NoAnswer(op string, err error) *Error {
	host := ""
	if named, ok := errors.AsType[*url.Error](err); ok {
		err = named.Err // op has method and URL already
		if at, parseErr := url.Parse(named.URL); parseErr == nil {
			host = at.Host
		}
	}
	e := &Error{Op: op, Kind: Temporary, Err: err}
	isTLSAlert := strings.Contains(err.Error(), `malformed HTTP response "\x15\x03`)
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		e.Kind, e.Unsent, e.Err = Misdirected, true, otherScheme(host, "http", err)
	case isTLSAlert:
		e.Kind, e.Unsent, e.Err = Misdirected, true, otherScheme(host, "https", err)
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Unsent, e.Err = true, fmt.Errorf("nothing listens there: check the port, and whether the service runs: %w", err)
	case errors.As(err, new(*net.DNSError)), errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(tls.RecordHeaderError)):
		e.Unsent = true
	default:
		dial, isNet := errors.AsType[*net.OpError](err)
		e.Unsent = isNet && slices.Contains([]string{"dial", "proxyconnect"}, dial.Op)
	}
	return e
}

// otherScheme explains an error that shows that a server has another scheme than the address.
func otherScheme(host, scheme string, cause error) error {
	host = cmp.Or(host, "the address")
	return fmt.Errorf("the server speaks %[1]s: write %[1]s://%[2]s (%[3]w)", scheme, host, cause)
}

// speaksHTTPS reports whether an answer without encryption says that the server wants it, as Go, nginx and Apache do.
func speaksHTTPS(resp *http.Response, text string) bool {
	isPlain := resp.Request != nil && resp.Request.URL.Scheme == "http"
	wantsTLS := strings.Contains(text, "HTTPS") || strings.Contains(text, "SSL-enabled")
	return isPlain && wantsTLS && resp.StatusCode == http.StatusBadRequest
}
