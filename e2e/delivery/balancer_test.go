//go:build e2e && s3

package delivery

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// balancer is one address for several receivers, which get the requests in turn. If a receiver does not
// listen, the next one gets the request. It keeps a journal of what the receivers have acknowledged.
type balancer struct {
	*httptest.Server
	journal

	receivers []string // host:port
	next      atomic.Uint64
	web       *http.Transport
}

func newBalancer(t *testing.T, receivers ...*receiver) *balancer {
	t.Helper()
	b := &balancer{web: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}}
	b.journal = journal{runs: map[string]bool{}, objects: map[string]string{}, finishes: map[string]string{}, answers: map[int]int{}}
	for _, r := range receivers {
		b.receivers = append(b.receivers, r.addr)
	}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

// ServeHTTP implements http.Handler.
func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has closed the connection
	}
	status, header, answer := b.forward(r, body)
	b.enter(r, body, status, answer)
	maps.Copy(w.Header(), header)
	w.WriteHeader(status)
	_, _ = w.Write(answer) // the client may have closed the connection
}

// forward returns the answer of a receiver, 502 if the connection breaks, and 503 if no receiver listens.
func (b *balancer) forward(r *http.Request, body []byte) (int, http.Header, []byte) {
	for range b.receivers {
		to := b.receivers[b.next.Add(1)%uint64(len(b.receivers))]
		out, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+to+r.RequestURI, bytes.NewReader(body))
		if err != nil {
			return http.StatusBadRequest, nil, nil
		}
		out.Header, out.Host = r.Header, r.Host
		resp, err := b.web.RoundTrip(out)
		failed, isNet := errors.AsType[*net.OpError](err)
		isDown := isNet && failed.Op == "dial"
		if isDown {
			continue
		}
		if err != nil {
			return http.StatusBadGateway, nil, nil
		}
		answer, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // it was read
		if err != nil {
			return http.StatusBadGateway, nil, nil
		}
		return resp.StatusCode, resp.Header, answer
	}
	return http.StatusServiceUnavailable, nil, nil
}

// journal is what receivers have acknowledged.
type journal struct {
	mu       sync.Mutex
	runs     map[string]bool   // the ids of registrations
	objects  map[string]string // the SHA-256 of the newest upload, by its path
	finishes map[string]string // the SHA-256 of the record that the finish names, by run
	bytes    int64             // of the objects
	answers  map[int]int       // their number by status

	finished atomic.Int64 // the number of finishes
}

// enter enters the answer to a request.
func (j *journal) enter(r *http.Request, body []byte, status int, answer []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.answers[status]++
	if status < 200 || status > 299 {
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.Method == http.MethodPut:
		sum := sha256.Sum256(body)
		j.objects[r.URL.Path] = hex.EncodeToString(sum[:])
		j.bytes += int64(len(body))
	case r.Method != http.MethodPost:
	case len(parts) == 1:
		var run struct {
			ID string `json:"run_id"`
		}
		if json.Unmarshal(answer, &run) == nil {
			j.runs[run.ID] = true
		}
	case parts[len(parts)-1] == "finish":
		var f struct {
			Record string `json:"record_sha256"`
		}
		if json.Unmarshal(body, &f) == nil {
			j.finishes[parts[1]] = f.Record
			j.finished.Add(1)
		}
	}
}
