package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/site/api"
)

// writeCertificate makes a self-signed certificate with a serial number.
func writeCertificate(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "localhost"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestServeReloadsItsFiles: tokens and certificate come from the files. If one cannot be read, the
// old one stays in force.
func TestServeReloadsItsFiles(t *testing.T) {
	dir := t.TempDir()
	s := &secrets{conf: config.Serve{
		Listen: "127.0.0.1:0", TokenFile: filepath.Join(dir, "tokens"),
		TLSCert: filepath.Join(dir, "cert.pem"), TLSKey: filepath.Join(dir, "key.pem"),
	}}
	writeTokens := func(text string) {
		if err := os.WriteFile(s.conf.TokenFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	writeTokens("first\n")
	writeCertificate(t, s.conf.TLSCert, s.conf.TLSKey, 1)
	if err := s.read(); err != nil {
		t.Fatal(err)
	}
	s.conf.Dir = filepath.Join(dir, "data")
	st, err := sitestores.Open(t.Context(), s.conf, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	s.server, err = api.New(t.Context(), api.Config{Registry: st.Registry, Objects: st.Objects, Tokens: s.tokens})
	if err != nil {
		t.Fatal(err)
	}
	ln, scheme, err := s.listen()
	if err != nil || scheme != "https" {
		t.Fatal(scheme, err)
	}
	server := &http.Server{Handler: s.server, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(ln) }() // ends with Close
	defer server.Close()
	expect := func(when string, serial int64, accepted, refused string) {
		t.Helper()
		conn, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true}) // the test checks the certificate itself
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if got := conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); got != serial {
			t.Errorf("%s: certificate %d, not %d", when, got, serial)
		}
		for token, want := range map[string]int{accepted: 200, refused: 401} {
			r := httptest.NewRequest("GET", "/runs", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			s.server.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s: token %q: %d", when, token, w.Code)
			}
		}
	}
	expect("at first", 1, "first", "second")
	if !slices.Equal(s.stamps, s.now()) {
		t.Error("unchanged files have changed")
	}
	writeTokens("second\n# a comment that makes it longer\n")
	writeCertificate(t, s.conf.TLSCert, s.conf.TLSKey, 2)
	if slices.Equal(s.stamps, s.now()) {
		t.Error("the change is not seen")
	}
	if err := s.read(); err != nil {
		t.Fatal(err)
	}
	expect("changed", 2, "second", "first")
	writeTokens("\n")
	if err := s.read(); err == nil {
		t.Error("an empty file of tokens is taken")
	}
	expect("broken", 2, "second", "first")
	writeTokens("third\n")
	if err := os.WriteFile(s.conf.TLSCert, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.read(); err == nil || !strings.Contains(err.Error(), "serve.tls_cert") {
		t.Errorf("a broken certificate: %v", err)
	}
	expect("a broken certificate does not delay tokens", 2, "third", "second")
}
