// Package sentinel is the client of the Sentinel API (section 9 of the
// specification) in two dialects: as specified, and as the public service runs.
package sentinel

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/upload"
)

// DialectAuto registers as specified and, when the fields are refused, once more in the
// dialect of the public service.
const DialectAuto = "auto"

// maxAnswer limits an answer, in bytes.
const maxAnswer = 1 << 20

// Config of a Client.
type Config struct {
	HTTP     *http.Client // see upload.NewHTTPClient
	Endpoint string       // base URL; empty for rt.DefaultEndpoint
	Token    string       // of section 9.1
	Dialect  string       // DialectAuto (also when empty), upload.DialectSpec or upload.DialectLive
}

// Client implements upload.Client. It is safe for concurrent use.
type Client struct {
	http      *http.Client
	base      string
	authorize func(http.Header) // a function, so that no printing of a Client shows the token
	redact    func([]byte) string

	mu      sync.Mutex
	dialect string // DialectAuto until the receiver has accepted one

	takesNodes, takesLive atomic.Bool // an answer has announced it
}

// New checks the configuration and returns a Client.
func New(c Config) (*Client, error) {
	c.Endpoint = cmp.Or(c.Endpoint, rt.DefaultEndpoint)
	base, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, errors.New("the Sentinel endpoint is not a URL")
	}
	if !upload.IsBaseURL(base) {
		return nil, fmt.Errorf("the Sentinel endpoint %q: it must be http(s)://host[:port][/path]", base.Redacted())
	}
	token := strings.TrimSpace(c.Token)
	if token == "" {
		return nil, errors.New("no Sentinel token was given")
	}
	if !printable(token, len(token)) {
		return nil, errors.New("the Sentinel token has blanks or other invalid characters")
	}
	c.Dialect = cmp.Or(c.Dialect, DialectAuto)
	switch c.Dialect {
	case DialectAuto, upload.DialectSpec, upload.DialectLive:
	default:
		return nil, fmt.Errorf("the Sentinel dialect %q: it must be auto, spec or live", c.Dialect)
	}
	return &Client{
		http: upload.WithoutRedirects(c.HTTP), base: strings.TrimRight(c.Endpoint, "/"), dialect: c.Dialect,
		authorize: func(h http.Header) { h.Set("Authorization", "Bearer "+token) },
		redact:    func(b []byte) string { return upload.Excerpt(b, token) },
	}, nil
}

// Endpoint implements upload.Client.
func (c *Client) Endpoint() string { return c.base }

// Register implements upload.Client: POST /runs.
func (c *Client) Register(ctx context.Context, run rt.Run, host rt.Host) (upload.Registered, error) {
	c.mu.Lock()
	dialect := c.dialect
	c.mu.Unlock()
	first := dialect
	if first == DialectAuto {
		first = upload.DialectSpec
	}
	got, err := c.registerAs(ctx, first, run, host)
	var refused *upload.Error
	if dialect == DialectAuto && errors.As(err, &refused) && refused.Status == http.StatusUnprocessableEntity {
		got, err = c.registerAs(ctx, upload.DialectLive, run, host)
	}
	if err == nil && dialect == DialectAuto {
		c.mu.Lock()
		c.dialect = got.Dialect
		c.mu.Unlock()
	}
	return got, err
}

func (c *Client) registerAs(ctx context.Context, dialect string, run rt.Run, host rt.Host) (upload.Registered, error) {
	answer, op, err := c.send(ctx, http.MethodPost, "/runs", Registration(dialect, run, host))
	if err != nil {
		return upload.Registered{}, refusedForAll(err)
	}
	got, takes, err := parseRegistered(answer)
	got.Dialect = dialect
	got.Record = got.Record && dialect == upload.DialectSpec
	if takes.nodes && dialect == upload.DialectSpec {
		c.takesNodes.Store(true)
	}
	if takes.live && dialect == upload.DialectSpec {
		c.takesLive.Store(true)
	}
	return got, c.invalid(op, err)
}

// Refresh implements upload.Client: POST /runs/{id}/refresh-credentials.
func (c *Client) Refresh(ctx context.Context, remoteID string) (upload.Credentials, error) {
	answer, op, err := c.send(ctx, http.MethodPost, "/runs/"+url.PathEscape(remoteID)+"/refresh-credentials", struct{}{})
	if err != nil {
		return upload.Credentials{}, err
	}
	cred, err := parseRefreshed(answer)
	return cred, c.invalid(op, err)
}

// Finish implements upload.Client: POST /runs/{id}/finish.
func (c *Client) Finish(ctx context.Context, f upload.Finish) error {
	body, err := finish(f)
	if err != nil {
		return err
	}
	_, _, err = c.send(ctx, http.MethodPost, "/runs/"+url.PathEscape(f.RemoteID)+"/finish", body)
	return err
}

// TakesNodes reports whether the receiver has announced, in the answer to a registration, that it takes
// reports of nodes.
func (c *Client) TakesNodes() bool { return c.takesNodes.Load() }

// PutNode sends the report of a node, a JSON object, to a receiver that takes reports: PUT /nodes. isTaken is
// false if the receiver takes none any more.
func (c *Client) PutNode(ctx context.Context, report []byte) (isTaken bool, err error) {
	_, _, err = c.send(ctx, http.MethodPut, "/nodes", json.RawMessage(report))
	e, isOurs := errors.AsType[*upload.Error](err)
	isAbsent := isOurs && e.Status == http.StatusNotFound
	return !isAbsent, err
}

// TakesLive is TakesNodes for reports of runs that are not delivered yet.
func (c *Client) TakesLive() bool { return c.takesLive.Load() }

// PutLive sends the report of such runs, a JSON object, to a receiver that takes it: PUT /live. It returns the names of
// the runs whose readings are wanted. isTaken is as with PutNode.
func (c *Client) PutLive(ctx context.Context, report []byte) (wanted []string, isTaken bool, err error) {
	text, op, err := c.send(ctx, http.MethodPut, "/live", json.RawMessage(report))
	e, isOurs := errors.AsType[*upload.Error](err)
	isAbsent := isOurs && e.Status == http.StatusNotFound
	if err != nil {
		return nil, !isAbsent, err
	}
	var answer struct {
		Wanted []string `json:"wanted"`
	}
	if json.Unmarshal(text, &answer) != nil {
		err = errors.New("it is not the JSON object that was expected")
	}
	return answer.Wanted, true, c.invalid(op, err)
}

// send sends one request and returns the body of a 2xx answer. The caller retries.
func (c *Client) send(ctx context.Context, method, path string, body any) (answer []byte, op string, err error) {
	op = method + " " + c.base + path
	text, err := json.Marshal(body)
	if err != nil {
		return nil, op, &upload.Error{Op: op, Kind: upload.Permanent, Err: err}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(text))
	if err != nil {
		return nil, op, &upload.Error{Op: op, Kind: upload.Permanent, Err: err}
	}
	c.authorize(req.Header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", upload.UserAgent+"/"+rt.Version)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, op, upload.NoAnswer(op, err)
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case resp.StatusCode/100 != 2:
		return nil, op, c.refused(op, resp, answer)
	case err != nil:
		return nil, op, upload.NoAnswer(op+": read the answer", err)
	case len(answer) > maxAnswer:
		return nil, op, c.invalid(op, fmt.Errorf("it is longer than %d bytes", maxAnswer))
	}
	return answer, op, nil
}

func (c *Client) refused(op string, resp *http.Response, answer []byte) *upload.Error {
	e := upload.BadStatus(op, resp, c.redact(answer))
	e.Own = isOwnError(resp.Header, answer)
	isAboutRun := e.Status == http.StatusNotFound || e.Status == http.StatusGone
	if isAboutRun && !e.Own {
		e.Err = fmt.Errorf("the answer is not the API's; a gateway may have sent it, or the endpoint is wrong: %w", e.Err)
	}
	if e.Kind == upload.Unauthorised {
		e.Err = fmt.Errorf("the token is refused; check the token file: %w", e.Err)
	}
	return e
}

// refusedForAll changes a refused registration into a refused token or a wrong address.
func refusedForAll(err error) error {
	e, ok := errors.AsType[*upload.Error](err)
	switch {
	case ok && e.Status == http.StatusForbidden:
		e.Kind = upload.Unauthorised
		e.Err = fmt.Errorf("the token may not register runs; check the token file: %w", e.Err)
	case ok && e.Status == http.StatusNotFound && e.Own:
		e.Kind = upload.Misdirected
		e.Err = fmt.Errorf("no API is at this path; check the path of the endpoint: %w", e.Err)
	}
	return err
}

// invalid returns the error of an answer that lacks something. It is permanent: the request
// was accepted, and a retry would create another run.
func (c *Client) invalid(op string, err error) error {
	if err == nil {
		return nil
	}
	return &upload.Error{
		Op: op, Kind: upload.Permanent, Status: http.StatusOK,
		Err: fmt.Errorf("the answer is not that of a Sentinel API: %w", err),
	}
}
