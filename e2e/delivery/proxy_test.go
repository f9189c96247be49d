//go:build e2e

package delivery

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// proxy forwards to a receiver. It kills the process that aim names at an exchange, and
// fails at random in all the ways in which a network fails.
type proxy struct {
	*httptest.Server
	to *receiver

	mu        sync.Mutex
	random    *rand.Rand
	faults    float64 // the share of exchanges that fail
	exchanges int
	killAt    int // the exchange at which victim dies, before or after the receiver gets it
	late      bool
	victim    *os.Process
	bodies    map[string][32]byte // of every object that was sent, by its path
	changed   []string            // objects that were sent with other bytes than before
}

func newProxy(t *testing.T, to *receiver, random *rand.Rand) *proxy {
	p := &proxy{to: to, random: random, bodies: map[string][32]byte{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

// aim names a process, resets the count of exchanges, and kills the process at the n-th.
func (p *proxy) aim(cmd *exec.Cmd, n int, late bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := cmd.Start()
	p.exchanges, p.killAt, p.late, p.victim = 0, n, late, cmd.Process
	return err
}

// The ways in which an exchange fails.
const (
	ok         = iota
	refuse     // 503, the receiver gets nothing
	drop       // the connection breaks, the receiver gets nothing
	lose       // the connection breaks after the receiver has acted
	break5xx   // 502 after the receiver has acted
	cut        // the answer ends in the middle
	faultKinds = cut
)

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender is dead
	}
	fault, dies := p.plan(r, body)
	if dies && !p.late {
		p.kill()
		return
	}
	switch fault {
	case refuse:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case drop:
		hangUp(w)
		return
	}
	status, header, answer, err := p.forward(r, body)
	if dies {
		p.kill()
		return
	}
	switch {
	case err != nil, fault == break5xx:
		w.WriteHeader(http.StatusBadGateway)
	case fault == lose:
		hangUp(w)
	default:
		maps.Copy(w.Header(), header)
		w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
		w.WriteHeader(status)
		if fault == cut && len(answer) > 0 {
			_, _ = w.Write(answer[:len(answer)/2])
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(answer)
	}
}

// plan counts an exchange and decides how it ends.
func (p *proxy) plan(r *http.Request, body []byte) (fault int, dies bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exchanges++
	if r.Method == http.MethodPut {
		sum := sha256.Sum256(body)
		if old, sent := p.bodies[r.URL.Path]; sent && old != sum {
			p.changed = append(p.changed, r.URL.Path)
		}
		p.bodies[r.URL.Path] = sum
	}
	if p.random.Float64() < p.faults {
		fault = 1 + p.random.IntN(faultKinds)
	}
	return fault, p.exchanges == p.killAt
}

func (p *proxy) kill() { _ = p.victim.Kill() } // it may have exited

func (p *proxy) forward(r *http.Request, body []byte) (int, http.Header, []byte, error) {
	req, err := http.NewRequest(r.Method, "http://"+p.to.addr+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header, req.Host = r.Header.Clone(), r.Host // the signature covers the host
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, answer, err
}

func hangUp(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}
