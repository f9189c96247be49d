package delivery

import (
	"fmt"
	"net"
	"net/url"
)

// ClearText returns what a delivery sends over a network without encryption; nothing if all
// of it is encrypted or stays on this machine.
func (r Receiver) ClearText() (unprotected []string) {
	for _, to := range []struct{ what, endpoint string }{{"the API's token crosses", r.Endpoint}, {"uploads cross", r.S3Endpoint}} {
		u, err := url.Parse(to.endpoint)
		if err != nil || u.Scheme != "http" || u.Hostname() == "localhost" {
			continue
		}
		if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsLoopback() {
			unprotected = append(unprotected, fmt.Sprintf("%s the network to %s in clear text", to.what, u.Host))
		}
	}
	return unprotected
}
