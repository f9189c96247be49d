package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/api"
)

// open opens a service with its stores, as serve does. closeAll ends it.
func open(t *testing.T, conf config.Serve) (s *api.Server, closeAll func()) {
	t.Helper()
	st, err := sitestores.Open(t.Context(), conf, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err = api.New(t.Context(), api.Config{
		Registry: st.Registry, Objects: heldObjects{st.Objects, st.Registry.Settings}, Temp: st.Temp, Tokens: []api.Token{{Hash: site.HashToken(testToken)}, {Hash: site.HashToken("another")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, func() {
		t.Helper()
		if err := errors.Join(s.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	}
}

// send sends a request with a token.
func send(s http.Handler, method, path, token, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// fill registers runs with 20 KB of metadata until there is no room.
func fill(t *testing.T, s http.Handler, token, key string) (runs int) {
	t.Helper()
	body := `{"job_name":"` + strings.Repeat("x", 20_000) + `"}`
	for {
		w := send(s, http.MethodPost, "/runs", token, body)
		if w.Code == http.StatusCreated && runs < 1000 {
			runs++
			continue
		}
		if w.Code != http.StatusInsufficientStorage || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), key) {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
		return runs
	}
}

// The runs of a token take no more than its quota, and all runs no more than theirs, also after a
// start.
func TestQuotas(t *testing.T) {
	conf := config.Serve{Dir: t.TempDir(), Quota: config.Size{Bytes: 1 << 20}, TokenQuota: config.Size{Bytes: 700 << 10}}
	s, end := open(t, conf)
	own, rest := fill(t, s, testToken, "serve.token_quota"), fill(t, s, "another", "serve.quota")
	if own < 30 || own > 35 || rest < 14 || rest > 18 {
		t.Errorf("%d runs of one token, and then %d of another", own, rest)
	}
	end()
	s, end = open(t, conf)
	if n := fill(t, s, testToken, "quota"); n != 0 {
		t.Errorf("%d runs after a start", n)
	}
	end()
}

// On a full disk the service serves its data and refuses new data, also after a start. When there is
// room again, it accepts data.
func TestStartOnAFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("needs root: mounts a tmpfs of 8 MiB: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	conf := config.Serve{Dir: filepath.Join(disk, "data")}
	s, end := open(t, conf)
	var run struct {
		ID string `json:"run_id"`
	}
	if err := json.Unmarshal(send(s, http.MethodPost, "/runs", testToken, "{}").Body.Bytes(), &run); err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(disk, "full")
	if err := os.WriteFile(full, make([]byte, 16<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	there := fill(t, s, testToken, "disk is full") // SQLite has reserved some room
	check := func(when string) {
		t.Helper()
		if w := send(s, http.MethodGet, "/runs/"+run.ID, testToken, ""); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", when, w.Code, w.Body)
		}
		var list []json.RawMessage
		w := send(s, http.MethodGet, "/runs", testToken, "")
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list) != there+1 {
			t.Errorf("%s: %d runs of %d, %v", when, len(list), there+1, err)
		}
	}
	check("full")
	end()
	s, end = open(t, conf)
	there += fill(t, s, testToken, "disk is full")
	check("started")
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	if w := send(s, http.MethodPost, "/runs", testToken, "{}"); w.Code != http.StatusCreated {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	there++
	check("with room")
	end()
}
