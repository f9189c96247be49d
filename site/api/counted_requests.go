package api

import (
	"io"
	"net/http"
	"strconv"
	"time"
)

// cut is the code of a request whose handler ended with a panic. The connection ends before the
// answer does, whatever status its header has.
const cut = "cut"

// Counting returns a handler that counts the requests to another one. route names what a request is for, with one of
// a small number of names.
func (m *Metrics) Counting(next http.Handler, route func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin, name := time.Now(), route(r)
		m.active.Inc()
		body := &countedBody{ReadCloser: r.Body}
		answer := &countedAnswer{ResponseWriter: w, status: http.StatusOK}
		counted := *r // the server keeps its own
		counted.Body = body
		isComplete := false
		defer func() {
			m.active.Dec()
			code := strconv.Itoa(answer.status)
			if !isComplete {
				code = cut
			}
			m.requests.WithLabelValues(name, code).Inc()
			m.latency.WithLabelValues(name).Observe(time.Since(begin).Seconds())
			m.received.WithLabelValues(name).Add(float64(body.bytes))
			m.sent.WithLabelValues(name).Add(float64(answer.bytes))
		}()
		next.ServeHTTP(answer, &counted)
		isComplete = true
	})
}

// countedBody counts the bytes of a body. A request has one, possibly empty.
type countedBody struct {
	io.ReadCloser
	bytes int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes += int64(n)
	return n, err
}

// countedAnswer counts the bytes of an answer, and keeps its status.
type countedAnswer struct {
	http.ResponseWriter
	status  int
	bytes   int64
	isBegun bool
}

// WriteHeader implements http.ResponseWriter.
func (a *countedAnswer) WriteHeader(status int) {
	isFinal := status >= http.StatusOK
	if isFinal && !a.isBegun {
		a.status, a.isBegun = status, true
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *countedAnswer) Write(p []byte) (int, error) {
	a.isBegun = true
	n, err := a.ResponseWriter.Write(p)
	a.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (a *countedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
