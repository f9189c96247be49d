// Package client asks a site service for jobs, runs and complete records. What a service answers is
// from any source: all of it is bounded, and no value of it is checked. It also gets runs as spool files, from the
// complete records, and as figures for lists.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/file"
	"github.com/resource-tracker/rt/internal/hostport"
	"github.com/resource-tracker/rt/internal/recovery"
)

// Config says which service a Client asks, and as whom.
type Config struct {
	URL       string        // base URL of the service
	TokenFile string        // file with a read token on its first line; empty: MUNGE
	Munged    string        // socket of munged, for MUNGE; empty: the default of munge
	CAFile    string        // PEM certificates that are trusted in addition to the system's; may be empty
	Timeout   time.Duration // limit of one request with its answer
}

// Client sends requests to one service. It is safe for concurrent use.
type Client struct {
	http      *http.Client
	base      string // without a slash at its end
	timeout   time.Duration
	hasToken  bool
	authorize func(*http.Request) error // a function, so that no printing of a Client shows the token
	limits    limits
}

// limits bound what a service can make a Client read.
type limits struct {
	page       int64 // bytes of one job of a list, and of what is between two jobs
	runs       int   // runs of a list
	emptyPages int   // pages without a run in succession
	record     int64 // bytes of a record
}

// defaultLimits are far above what a service of a site has.
var defaultLimits = limits{page: 256 << 20, runs: 500_000, emptyPages: 5_000, record: 64 << 20}

// New checks the configuration, reads its files and returns a Client.
func New(c Config) (*Client, error) {
	base, err := url.Parse(c.URL)
	if err != nil {
		return nil, errors.New("site.url is not a URL") // the text can have a password
	}
	isHTTP := base.Scheme == "http" || base.Scheme == "https"
	isBase := isHTTP && base.Host != "" && base.User == nil && base.RawQuery == "" && base.Fragment == ""
	if !isBase {
		return nil, fmt.Errorf("site.url %q: it must be http(s)://host[:port][/path]", base.Redacted())
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		conf.RootCAs, err = authorities(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("site.ca_file: %w", err)
		}
	}
	authorize := ByMunge(c.Munged)
	if c.TokenFile != "" {
		token, err := readToken(c.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("site.token_file: %w", err)
		}
		authorize = func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+token)
			return nil
		}
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &Client{
		http: &http.Client{
			Transport: &http.Transport{
				Proxy: proxyOf, DialContext: dialer.DialContext, TLSClientConfig: conf,
				TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 8, ForceAttemptHTTP2: true,
				// A Transport sends a request again if a kept connection is broken, and munged accepts a credential once.
				DisableKeepAlives: c.TokenFile == "",
			},
			// A credential is for one address.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		base: strings.TrimRight(c.URL, "/"), timeout: cmp.Or(c.Timeout, 30*time.Second), hasToken: c.TokenFile != "", authorize: authorize, limits: defaultLimits,
	}, nil
}

// proxyOf returns the proxy of the environment for https, which it passes on without seeing it. With http
// it would read tokens and data.
func proxyOf(r *http.Request) (*url.URL, error) {
	if r.URL.Scheme != "https" {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

// ClearText reports whether requests send the read token to another machine without encryption. A MUNGE
// credential is for one request.
func (c *Client) ClearText() bool {
	return c.hasToken && hostport.CrossesNetwork(c.base)
}

func authorities(name string) (*x509.CertPool, error) {
	pem, err := file.ReadSmall(name, file.SmallLimit)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no PEM certificate", name)
	}
	return pool, nil
}

// readToken returns the first line of a file.
func readToken(name string) (string, error) {
	text, err := file.ReadSmall(name, file.SmallLimit)
	if err != nil {
		return "", err
	}
	token, _, _ := strings.Cut(string(text), "\n")
	token = strings.TrimSpace(token)
	isPrintable := strings.IndexFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) < 0
	if token == "" || !isPrintable {
		return "", fmt.Errorf("the first line of %s is not a token", name)
	}
	return token, nil
}

// URL returns the base URL of the service.
func (c *Client) URL() string { return c.base }

// maxTries limits the requests for one answer, if the service asks to wait.
const maxTries = 4

// get is ask with a GET.
func (c *Client) get(ctx context.Context, path string, query url.Values, read func(*http.Response) error) error {
	return c.ask(ctx, http.MethodGet, path, query, read)
}

// ask sends a request and passes the answer to read. If the service asks to wait and the time limit
// permits, ask waits and sends the request again.
func (c *Client) ask(ctx context.Context, method, path string, query url.Values, read func(*http.Response) error) error {
	at := c.base + path
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	limited, cancel := context.WithTimeoutCause(ctx, c.timeout, errTimeout)
	defer cancel()
	for try := 1; ; try++ {
		err := c.once(limited, method, at, read)
		busy, isRefused := errors.AsType[*Error](err)
		isLast := !isRefused || busy.RetryAfter <= 0 || try == maxTries
		if isLast || !pause(limited, busy.RetryAfter) {
			return c.explain(ctx, limited, err)
		}
	}
}

var errTimeout = errors.New("the time limit is over (site.timeout)")

// explain adds which request failed, and replaces an error that the time limit caused.
func (c *Client) explain(ctx, limited context.Context, err error) error {
	if err == nil {
		return nil
	}
	isOver := ctx.Err() == nil && context.Cause(limited) == errTimeout
	if _, isAnswer := errors.AsType[*Error](err); isOver && !isAnswer {
		err = fmt.Errorf("%w: %w", ErrUnreachable, errTimeout)
	}
	return fmt.Errorf("ask the site %s: %w", c.base, err)
}

// pause waits, and reports whether it did: it does not wait if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	return recovery.Pause(ctx, d)
}

func (c *Client) once(ctx context.Context, method, at string, read func(*http.Response) error) error {
	req, err := http.NewRequestWithContext(ctx, method, at, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "rt/"+rt.Version)
	req.Header.Set("Accept-Encoding", "identity") // a record has a checksum, and the limits are for the text
	if err := c.authorize(req); err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if urlErr, ok := errors.AsType[*url.Error](err); ok {
			err = urlErr.Err // the caller names the site
		}
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refused(resp)
	}
	return read(resp)
}

// bounded returns a reader of an answer that fails after limit bytes.
func bounded(r io.Reader, limit int64) *boundedReader {
	return &boundedReader{r: r, left: limit, limit: limit}
}

type boundedReader struct {
	r           io.Reader
	left, limit int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, fmt.Errorf("%w: it is larger than %d MiB", ErrAnswer, b.limit>>20)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left+1)])
	b.left -= int64(n)
	switch {
	case b.left < 0:
		return n - 1, fmt.Errorf("%w: it is larger than %d MiB", ErrAnswer, b.limit>>20)
	case err != nil && err != io.EOF:
		return n, fmt.Errorf("%w: read the answer: %w", ErrUnreachable, err)
	}
	return n, err
}
