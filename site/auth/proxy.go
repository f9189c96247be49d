package auth

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"regexp"

	"github.com/resource-tracker/rt/site"
)

// fromUnix stands in ProxyFrom for the clients of a Unix socket.
const fromUnix = "unix"

// proxy is a server in front that has identified the user. The zero value accepts none.
type proxy struct {
	header   string
	networks []netip.Prefix
	unix     bool
}

var nameOfHeader = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

func newProxy(header string, from []string) (*proxy, error) {
	if header == "" {
		if len(from) > 0 {
			return nil, errors.New("serve.proxy_from needs serve.proxy_header too")
		}
		return &proxy{}, nil
	}
	name := textproto.CanonicalMIMEHeaderKey(header)
	isReserved := name == "Authorization" || name == "Host"
	if isReserved || !nameOfHeader.MatchString(name) {
		return nil, fmt.Errorf("serve.proxy_header: %q cannot be the header with the name of a user", header)
	}
	if len(from) == 0 {
		return nil, errors.New("serve.proxy_header needs the addresses of the proxy in serve.proxy_from")
	}
	p := &proxy{header: name}
	for _, text := range from {
		if text == fromUnix {
			p.unix = true
			continue
		}
		network, err := netip.ParsePrefix(text)
		if address, addressErr := netip.ParseAddr(text); addressErr == nil {
			network, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("serve.proxy_from: %q is neither an address nor a network such as 10.0.0.0/24 nor %q", text, fromUnix)
		}
		if network.Bits() == 0 {
			return nil, fmt.Errorf("serve.proxy_from: %q has all addresses: any client could name any user", text)
		}
		p.networks = append(p.networks, network.Masked())
	}
	return p, nil
}

// user returns the user that the proxy names; ok is false for a request without the header. The header from
// elsewhere is an attempt to read as another user.
func (p *proxy) user(r *http.Request) (name string, ok bool, err error) {
	if p.header == "" {
		return "", false, nil
	}
	values := r.Header.Values(p.header)
	switch {
	case len(values) == 0:
		return "", false, nil
	case !p.isFrom(r):
		return "", false, fmt.Errorf("%w: the header %s is accepted from the proxy of this site only", site.ErrNoReader, p.header)
	case len(values) > 1:
		return "", false, fmt.Errorf("%w: the header %s is there more than once", site.ErrNoReader, p.header)
	}
	return values[0], true, nil
}

// isFrom reports whether a request comes from the proxy.
func (p *proxy) isFrom(r *http.Request) bool {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && local.Network() == "unix" {
		return p.unix
	}
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	address := remote.Addr().Unmap().WithZone("")
	for _, network := range p.networks {
		if network.Contains(address) {
			return true
		}
	}
	return false
}
