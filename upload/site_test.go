package upload_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/strict"
	"github.com/resource-tracker/rt/e2e/testsite"
	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/s3"
	"github.com/resource-tracker/rt/upload/sentinel"
)

// site is a receiver with the clients that talk to it.
type site struct {
	url    string
	http   *http.Client
	client *sentinel.Client
	store  *s3.Uploader

	lenient http.Handler // our receiver, which accepts a repeated finish; the clients meet a strict one

	mu      sync.Mutex
	meddle  func(w http.ResponseWriter, r *http.Request, next http.Handler) // may be nil
	noToken atomic.Int64                                                    // API requests without the token
}

// newSite puts the receiver behind a real listener.
func newSite(t *testing.T, dialect string) *site {
	t.Helper()
	s := &site{}
	srv := httptest.NewServer(s.handler(t, dialect))
	t.Cleanup(srv.Close)
	httpClient, err := upload.NewHTTPClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(httpClient.CloseIdleConnections)
	s.connect(t, srv.URL, httpClient)
	return s
}

// newBubbleSite calls the receiver's handler without a network, so that the pauses
// between requests pass at once in a synctest bubble.
func newBubbleSite(t *testing.T) *site {
	t.Helper()
	s := &site{}
	s.connect(t, "http://receiver.example", &http.Client{Transport: inProcess{s.handler(t, "")}})
	return s
}

// inProcess is a transport that is the server. A handler that panics with
// http.ErrAbortHandler resets the connection.
type inProcess struct{ http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			resp, err = nil, fmt.Errorf("connection reset: %v", fault)
		}
	}()
	in := r.Clone(r.Context())
	in.Host, in.RequestURI = r.URL.Host, r.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, in)
	return w.Result(), nil
}

func (s *site) handler(t *testing.T, dialect string) http.Handler {
	t.Helper()
	c := testsite.Config{RunOf: func(io.Reader) (rt.Run, error) { return rt.Run{}, nil }} // the records of these tests are any text
	if dialect == upload.DialectLive {
		c.RunOf = nil
	}
	h, closeAll, err := testsite.Open(t.Context(), t.TempDir(), token, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeAll(); err != nil {
			t.Error(err)
		}
	})
	s.lenient = strict.Dialect(h, dialect)
	front := strict.New(s.lenient)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/runs") && r.Header.Get("Authorization") != "Bearer "+token {
			s.noToken.Add(1)
		}
		s.mu.Lock()
		meddle := s.meddle
		s.mu.Unlock()
		if meddle == nil {
			front.ServeHTTP(w, r)
			return
		}
		meddle(w, r, front)
	})
}

func (s *site) connect(t *testing.T, url string, client *http.Client) {
	t.Helper()
	var err error
	s.url, s.http = url, client
	if s.client, err = sentinel.New(sentinel.Config{HTTP: client, Endpoint: url, Token: token}); err != nil {
		t.Fatal(err)
	}
	if s.store, err = s3.New(s3.Config{HTTP: client, Endpoint: url}); err != nil {
		t.Fatal(err)
	}
}
