package upload

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"
)

// UserAgent is the product name that every request carries, before "/<version>".
const UserAgent = "resource-tracker"

// NewHTTPClient returns the client for the API and the object store. Servers are
// verified against the system's authorities and those in caPEM (may be nil).
// Proxies come from HTTPS_PROXY, HTTP_PROXY and NO_PROXY. A request may take at
// most two minutes.
func NewHTTPClient(caPEM []byte) (*http.Client, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if caPEM != nil {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(caPEM) {
			return nil, errors.New("the file of certificate authorities holds no PEM certificate")
		}
		conf.RootCAs = pool
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &http.Client{
		Timeout: 2 * time.Minute,
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           dialer.DialContext,
			TLSClientConfig:       conf,
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: time.Minute,
			IdleConnTimeout:       30 * time.Second,
			MaxIdleConnsPerHost:   8,
			ForceAttemptHTTP2:     true,
		},
	}, nil
}

// IsBaseURL reports whether u is an http or https URL with a host, without user, query and
// fragment.
func IsBaseURL(u *url.URL) bool {
	isHTTP := u.Scheme == "http" || u.Scheme == "https"
	return isHTTP && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

// WithoutRedirects returns a copy of the client (http.DefaultClient for nil) that follows no
// redirect: a token is for one host, a signature for one address.
func WithoutRedirects(c *http.Client) *http.Client {
	if c == nil {
		c = http.DefaultClient
	}
	clone := *c
	clone.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &clone
}
