package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	maxAnswer = 256 << 10 // bytes of an answer's body: Azure's may hold 64 KiB of user data in base64
	maxHeader = 16 << 10  // bytes of an answer's header
	maxToken  = 1024      // bytes of a session token
)

// transport never uses a proxy: metadata services answer only the machine itself.
func (p *Prober) transport() *http.Transport {
	dial := p.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: vendorTimeout, Resolver: &net.Resolver{PreferGo: true}}).DialContext
	}
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            dial,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		IdleConnTimeout:        time.Second,
	}
}

// service is one vendor's metadata service.
type service struct {
	client *http.Client
	base   string
	send   http.Header // with every request
	expect http.Header // in every answer
}

func newService(base string, transport http.RoundTripper) *service {
	return &service{
		base: base,
		send: http.Header{"User-Agent": {"resource-tracker"}},
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// do sends a request and returns status and body of the answer.
func (s *service) do(ctx context.Context, method, path string, extra http.Header) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, nil)
	if err != nil {
		return 0, nil, err
	}
	maps.Copy(req.Header, s.send)
	maps.Copy(req.Header, extra)
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close() // read only: nothing can be lost
	for name := range s.expect {
		if resp.Header.Get(name) != s.expect.Get(name) {
			return 0, nil, fmt.Errorf("%s %s: the answer lacks %s: %s", method, path, name, s.expect.Get(name))
		}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("%s %s: the answer is longer than %d bytes", method, path, maxAnswer)
	}
	return resp.StatusCode, body, err
}

// value returns an answer that is one name; empty if there is none.
func (s *service) value(ctx context.Context, path string) string {
	status, body, err := s.do(ctx, http.MethodGet, path, nil)
	if err != nil || status != http.StatusOK {
		return ""
	}
	return clean(string(bytes.TrimSpace(body)))
}

// document decodes a JSON answer.
func (s *service) document(ctx context.Context, path string, into any) bool {
	status, body, err := s.do(ctx, http.MethodGet, path, nil)
	return err == nil && status == http.StatusOK && json.Unmarshal(body, into) == nil
}

// authenticate opens a session and sends its token with all later requests. It reports
// whether requests are possible. They also are if the service refuses sessions, because then
// the older version without tokens works. No answer is no refusal.
func (s *service) authenticate(ctx context.Context, path, ttlHeader, tokenHeader string) bool {
	status, body, err := s.do(ctx, http.MethodPut, path, http.Header{ttlHeader: {"60"}}) // seconds
	if err != nil {
		return false
	}
	switch status {
	case http.StatusOK:
		token := bytes.TrimSpace(body)
		if len(token) == 0 || len(token) > maxToken {
			return false
		}
		s.send.Set(tokenHeader, string(token))
		return true
	case http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
		return true
	}
	return false
}

// clean returns names of regions, zones, accounts and instance types, of 256 bytes at most.
// For any other text, such as a page of a captive portal, it returns "".
func clean(s string) string {
	if len(s) > 256 {
		return ""
	}
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	if strings.Trim(s, letters+"._:/+-") != "" || strings.TrimLeft(s, letters) == s {
		return ""
	}
	return s
}
