package upload_test

import (
	"bufio"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/sentinel"
)

func TestServersAreVerified(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	defer srv.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	for _, known := range []bool{false, true} {
		var authorities []byte
		if known {
			authorities = ca
		}
		h, err := upload.NewHTTPClient(authorities)
		if err != nil {
			t.Fatal(err)
		}
		defer h.CloseIdleConnections()
		c, err := sentinel.New(sentinel.Config{HTTP: h, Endpoint: srv.URL, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Refresh(t.Context(), "r1")
		var e *upload.Error
		if !errors.As(err, &e) || known && e.Status != http.StatusNotFound || !known && (e.Status != 0 || !e.Unsent) {
			t.Errorf("known %v: %v", known, err)
		}
	}
	if _, err := upload.NewHTTPClient([]byte("no certificate")); err == nil {
		t.Error("a file without certificates was taken")
	}
}

// A drain to a wrong address ends at the first run and says what is wrong. No run is said to be registered twice.
func TestWrongAddresses(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	proxied := func(text string) *httptest.Server { // as nginx and Apache answer
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, text)
		}))
	}
	silent := log.New(io.Discard, "", 0)
	plain, encrypted := httptest.NewUnstartedServer(http.NotFoundHandler()), httptest.NewUnstartedServer(http.NotFoundHandler())
	plain.Config.ErrorLog, encrypted.Config.ErrorLog = silent, silent
	plain.Start()
	encrypted.StartTLS()
	nginx, apache := proxied("<center>The plain HTTP request was sent to HTTPS port</center>"), proxied("You're speaking plain HTTP to an SSL-enabled server port.")
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"detail":"there is nothing at this path"}`)
	}))
	for _, srv := range []*httptest.Server{plain, encrypted, nginx, apache, elsewhere} {
		defer srv.Close()
	}
	host := func(srv *httptest.Server) string { return srv.Listener.Addr().String() }
	for _, tc := range []struct {
		endpoint, want string
		kind           error
	}{
		{"https://" + host(plain), "the server speaks http: write http://" + host(plain), upload.ErrConfig},
		{"http://" + host(encrypted) + "/v1", "the server speaks https: write https://" + host(encrypted), upload.ErrConfig},
		{"http://" + host(nginx), "the server speaks https: write https://" + host(nginx), upload.ErrConfig},
		{"http://" + host(apache), "the server speaks https: write https://" + host(apache), upload.ErrConfig},
		{"http://" + host(elsewhere) + "/api", "no API is at this path; check the path of the endpoint", upload.ErrConfig},
		{gone.URL, "nothing listens there: check the port", upload.ErrTemporary},
	} {
		h, err := upload.NewHTTPClient(nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := sentinel.New(sentinel.Config{HTTP: h, Endpoint: tc.endpoint, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		sum, err := upload.Drain(t.Context(), dirOf(newRun(1, 2), newRun(2, 2)), c, &fakeClient{}, upload.DrainOptions{Concurrency: 1, Tries: 1})
		text := ""
		for _, p := range sum.Problems {
			text += p.Error + "\n"
		}
		if !errors.Is(err, tc.kind) || !strings.Contains(text, tc.want) || sum.PossibleDuplicates > 0 || sum.Delivered > 0 {
			t.Errorf("%s: %v, %+v", tc.endpoint, err, sum)
		}
		h.CloseIdleConnections()
	}
}

// Some servers answer a request without encryption with an alert of TLS.
func TestAnswerIsAnAlert(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if conn, err := ln.Accept(); err == nil {
			_, _ = http.ReadRequest(bufio.NewReader(conn)) // all of it, so that closing resets nothing
			_, _ = conn.Write([]byte("\x15\x03\x01\x00\x02\x02\x50"))
			conn.Close()
		}
	}()
	_, err = http.Get("http://" + ln.Addr().String())
	e := upload.NoAnswer("PUT s3://b/k", err)
	if e.Kind != upload.Misdirected || !e.Unsent || !strings.Contains(e.Error(), "the server speaks https: write https://"+ln.Addr().String()) {
		t.Errorf("%+v", e)
	}
}
