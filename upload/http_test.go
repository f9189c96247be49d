package upload_test

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
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
