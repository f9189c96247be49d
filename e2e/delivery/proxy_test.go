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
	"strings"
	"sync"
	"testing"

	"github.com/resource-tracker/rt/e2e/strict"
	"github.com/resource-tracker/rt/upload"
)

// proxy forwards to a receiver behind a strict.Handler. It kills the process that aim names at an
// exchange, and fails at random in all the ways in which a network fails.
type proxy struct {
	*httptest.Server
	to     *receiver
	strict *strict.Handler

	mu        sync.Mutex
	random    *rand.Rand
	faults    float64 // the share of exchanges that fail
	exchanges int
	killAt    int // the exchange at which victim dies, before or after the receiver gets it
	late      bool
	victim    *os.Process
	bodies    map[string][32]byte // of every object and finish that was sent, by its path
	changed   []string            // those that were sent with other bytes than before
	failed    map[int]int         // exchanges by how they failed
}

func newProxy(t *testing.T, to *receiver, random *rand.Rand) *proxy {
	p := &proxy{to: to, random: random, bodies: map[string][32]byte{}, failed: map[int]int{}}
	p.strict = strict.New(http.HandlerFunc(p.pass))
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
	gateway    // 404 of a gateway, the receiver gets nothing
	tooMany    // 429, the receiver gets nothing
	breaks     // 500, the receiver gets nothing
	forget     // the receiver forgets the run, if it is asked for credentials
	faultKinds = forget
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
	case gateway:
		http.Error(w, "<html>default backend - 404</html>", http.StatusNotFound)
		return
	case tooMany:
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case breaks:
		w.WriteHeader(http.StatusInternalServerError)
		return
	case forget:
		if id, what := strict.Run(r); what == "refresh-credentials" {
			p.strict.Forget(id)
		}
	case drop:
		hangUp(w)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	received := httptest.NewRecorder()
	p.strict.ServeHTTP(received, r)
	if dies {
		p.kill()
		return
	}
	switch fault {
	case break5xx:
		w.WriteHeader(http.StatusBadGateway)
	case lose:
		hangUp(w)
	default:
		answer := received.Body.Bytes()
		maps.Copy(w.Header(), received.Header())
		w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
		w.WriteHeader(received.Code)
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
	isRecord := strings.HasSuffix(r.URL.Path, "/"+upload.RecordName) // of a tracked run, it grows; a finish has its SHA-256
	_, what := strict.Run(r)
	isObject := r.Method == http.MethodPut && !isRecord
	if isObject || what == "finish" {
		// A repeated finish that gets 422 is sent again without its record.
		key := fmt.Sprint(r.URL.Path, ", with a record ", bytes.Contains(body, []byte(`"record_sha256"`)))
		sum := sha256.Sum256(body)
		if old, sent := p.bodies[key]; sent && old != sum {
			p.changed = append(p.changed, key)
		}
		p.bodies[key] = sum
	}
	if p.random.Float64() < p.faults {
		fault = 1 + p.random.IntN(faultKinds)
		p.failed[fault]++
	}
	return fault, p.exchanges == p.killAt
}

func (p *proxy) kill() { _ = p.victim.Kill() } // it may have exited

// pass forwards a request to the receiver; 502 if that gives no answer.
func (p *proxy) pass(w http.ResponseWriter, r *http.Request) {
	req, err := http.NewRequest(r.Method, "http://"+p.to.addr+r.URL.RequestURI(), r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	req.Header, req.Host, req.ContentLength = r.Header.Clone(), r.Host, r.ContentLength // the signature covers the host
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(answer)
}

func hangUp(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}
