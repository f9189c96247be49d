package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/e2e/munged"
	"github.com/resource-tracker/rt/e2e/testsite"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/api"
)

// readSite is a service with stored runs.
type readSite struct {
	url string // of a listener on loopback
	ids []string
}

// newReadSite starts a service with a configuration, and with the runs of three users.
func newReadSite(t *testing.T, conf config.Serve, users [3]string) *readSite {
	t.Helper()
	conf.Dir = t.TempDir()
	if conf.Munge == "" {
		conf.Munge = "off"
	}
	s := &readSite{}
	var err error
	s.ids, err = testsite.Fill(t.Context(), conf.Dir, users)
	if err != nil {
		t.Fatal(err)
	}
	a, err := newAccess(conf)
	if err == nil {
		err = a.read()
	}
	if err != nil {
		t.Fatal(err)
	}
	st, err := sitestores.Open(t.Context(), conf, nil)
	if err != nil {
		t.Fatal(err)
	}
	server, err := api.New(t.Context(), api.Config{
		Registry: st.Registry, Objects: st.Objects, Temp: st.Temp, Tokens: []api.Token{{Hash: site.HashToken(testToken)}}, Readers: a.readers,
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(server)
	s.url = web.URL
	t.Cleanup(func() {
		web.Close()
		if err := errors.Join(server.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// get sends a request and returns the status and the body of the answer.
func (s *readSite) get(t *testing.T, path string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// sees checks that a reader sees the runs with these numbers and no others, in lists and one by one.
func (s *readSite) sees(t *testing.T, who string, want string, authorize func(path string) []string) {
	t.Helper()
	for _, path := range []string{"/v1/jobs", "/v1/runs", "/v1/runs?limit=1000&job_name=TRAIN&since=2020-01-01T00:00:00Z"} {
		status, body := s.get(t, path, authorize(path)...)
		if status != http.StatusOK {
			t.Errorf("%s: GET %s: %d %s", who, path, status, body)
		}
		for n, id := range s.ids {
			isListed := strings.Contains(want, strconv.Itoa(n)) && n != 4 // without a record it is in no list
			if strings.Contains(body, id) != isListed {
				t.Errorf("%s: GET %s: run %d: listed %v\n%s", who, path, n, !isListed, body)
			}
		}
	}
	for n, id := range s.ids {
		for _, part := range []string{"", "/record", "/csv", "/summary"} {
			path := "/v1/runs/" + id + part
			status, body := s.get(t, path, authorize(path)...)
			isSeen := strings.Contains(want, strconv.Itoa(n))
			hasPart := part == "" || part == "/csv" || part == "/record" && n < 4 || part == "/summary" && n < 2
			isRight := status == http.StatusNotFound
			if isSeen && hasPart {
				isRight = status == http.StatusOK
			}
			if !isRight || !isSeen && body != "{\"detail\":\"there is no such run\"}\n" {
				t.Errorf("%s: GET %s of run %d: %d %s", who, path, n, status, body)
			}
		}
	}
}

func bearer(token string) func(string) []string {
	return func(string) []string { return []string{"Authorization", "Bearer " + token} }
}

// Operators list the runs of no job, and other readers do not.
func TestRunsOfNoJob(t *testing.T) {
	file := filepath.Join(t.TempDir(), "readers")
	if err := os.WriteFile(file, []byte("all\nalice user=alice\nphysics account=physics\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newReadSite(t, config.Serve{ReadTokenFile: file}, [3]string{"alice", "bob", "carol"})
	last := s.ids[4] // without a record
	for _, test := range []struct {
		token, query string
		status       int
		want         string
	}{
		{"all", "", 200, last}, {"all", "?limit=1", 200, `"next":"` + last}, {"all", "?cursor=" + last, 200, `{"runs":[` + "\n" + `],"next":""}`},
		{"all", "?cursor=1.2.61", 400, "cursor must be next"}, {"all", "?user=alice", 400, "no parameter"}, {"all", "?limit=0", 400, "limit must be"},
		{"alice", "", 403, "only operators"}, {"physics", "", 403, "only operators"}, {"x", "", 401, "not known"},
	} {
		status, body := s.get(t, "/v1/unassigned"+test.query, "Authorization", "Bearer "+test.token)
		if status != test.status || !strings.Contains(body, test.want) {
			t.Errorf("%s, %s: %d %s, want %d with %s", test.token, test.query, status, body, test.status, test.want)
		}
		for _, id := range s.ids[:4] {
			if strings.Contains(body, id) {
				t.Errorf("%s, %s: the run %s of a job is in the list: %s", test.token, test.query, id, body)
			}
		}
	}
}

// Each holder of a read token sees exactly what its line permits. Other tokens see nothing.
func TestReadTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "readers")
	text := "all-token\nalice-token user=alice\nphysics-token account=physics\nother-token account=biology,chemistry\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newReadSite(t, config.Serve{ReadTokenFile: file}, [3]string{"alice", "bob", "carol"})
	for token, want := range map[string]string{"all-token": "01234", "alice-token": "01", "physics-token": "012", "other-token": "3"} {
		s.sees(t, token, want, bearer(token))
	}
	for _, token := range []string{"", "x", testToken, "all-toke", "all-token user=alice"} {
		for _, path := range []string{"/v1/jobs", "/v1/runs", "/v1/whoami", "/v1/runs/" + s.ids[0], "/v1/runs/" + s.ids[0] + "/record"} {
			if status, body := s.get(t, path, "Authorization", "Bearer "+token); status != http.StatusUnauthorized || strings.Contains(body, "alice") {
				t.Errorf("%q: GET %s: %d %s", token, path, status, body)
			}
		}
	}
	if status, _ := s.get(t, "/runs", "Authorization", "Bearer all-token"); status != http.StatusUnauthorized {
		t.Errorf("a read token at /runs: %d", status)
	}
	for _, query := range []string{
		"?x=1", "?limit=0", "?limit=1001", "?limit=%2b5", "?limit=1&limit=2", "?limit=", "?job_id=-1", "?job_id=1x", "?state=up", "?since=now", "?user=",
		"?user=%ff", "?cursor=1", "?cursor=1.2.zz", "?%zz", "?a;b", "?until=2026-13-01T00:00:00Z", "?limit=5%00", "?LIMIT=5" + strings.Repeat("&user=a", 17),
		"?cluster=" + strings.Repeat("x", 201), strings.Replace(strings.Repeat("&user=a", 17), "&", "?", 1),
	} {
		if status, body := s.get(t, "/v1/jobs"+query, "Authorization", "Bearer all-token"); status != http.StatusBadRequest || !strings.HasPrefix(body, `{"detail":"`) {
			t.Errorf("GET /v1/jobs%s: %d %s", query, status, body)
		}
	}
	if status, body := s.get(t, "/v1/runs/"+s.ids[0]+"/csv", "Authorization", "Bearer all-token"); status != 200 || body != testsite.CSV {
		t.Errorf("CSV: %d %q", status, body)
	}
	if status, body := s.get(t, "/v1/runs/"+s.ids[1]+"/record", "Authorization", "Bearer all-token"); status != 200 || body != testsite.Record+"1" {
		t.Errorf("record: %d %q", status, body)
	}
	if status, body := s.get(t, "/v1/runs/"+s.ids[1]+"/summary", "Authorization", "Bearer all-token"); status != 200 || body != testsite.Summary+"\n" {
		t.Errorf("summary: %d %q", status, body)
	}
	// Pages of one job.
	var jobs []uint64
	for path := "/v1/jobs?limit=1"; path != ""; {
		var page struct {
			Jobs []struct {
				ID uint64 `json:"job_id"`
			}
			Next string
		}
		_, body := s.get(t, path, "Authorization", "Bearer all-token")
		if err := json.Unmarshal([]byte(body), &page); err != nil || len(page.Jobs) > 1 {
			t.Fatal(err, body)
		}
		for _, j := range page.Jobs {
			jobs = append(jobs, j.ID)
		}
		path = "/v1/jobs?limit=1&cursor=" + page.Next
		if page.Next == "" {
			break
		}
	}
	if fmt.Sprint(jobs) != "[3 2 1]" {
		t.Errorf("jobs %v", jobs)
	}
}

// The header of a proxy is accepted from its address only.
func TestProxyHeader(t *testing.T) {
	coordinators := filepath.Join(t.TempDir(), "coordinators")
	if err := os.WriteFile(coordinators, []byte("physics: carol\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	conf := config.Serve{ProxyHeader: "X-Remote-User", ProxyFrom: []string{"127.0.0.1"}, Operators: []string{"opal"}, Coordinators: coordinators}
	s := newReadSite(t, conf, [3]string{"alice", "bob", "carol"})
	for name, want := range map[string]string{"alice": "01", "bob": "2", "carol": "0123", "eve": "", "opal": "01234"} {
		s.sees(t, name, want, func(string) []string { return []string{"X-Remote-User", name} })
	}
	if status, body := s.get(t, "/v1/jobs"); status != http.StatusUnauthorized {
		t.Errorf("no header: %d %s", status, body)
	}
	conf.ProxyFrom = []string{"192.0.2.1", "unix"}
	s = newReadSite(t, conf, [3]string{"alice", "bob", "carol"})
	for _, name := range []string{"alice", "opal"} {
		if status, body := s.get(t, "/v1/jobs", "X-Remote-User", name); status != http.StatusForbidden || strings.Contains(body, "train") {
			t.Errorf("%s from a wrong address: %d %s", name, status, body)
		}
	}
}

// munge makes a credential as a user.
func munge(t *testing.T, uid uint32, socket, payload string, options ...string) string {
	t.Helper()
	cmd := exec.Command("munge", append([]string{"--socket=" + socket}, options...)...)
	cmd.Stdin = strings.NewReader(payload)
	if uid != uint32(os.Geteuid()) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return "MUNGE " + strings.TrimSpace(string(out))
}

// Users that MUNGE identifies see their own jobs, coordinators see the jobs of their accounts, and
// operators see all. A credential is valid once, for one request, and for a limited time.
func TestMunge(t *testing.T) {
	if testing.Short() {
		t.Skip("in make check: MUNGE")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: makes credentials of several users")
	}
	var names [3]string
	uids := [3]uint32{1, 2, 3} // any Debian has them
	for i, uid := range uids {
		u, err := user.LookupId(fmt.Sprint(uid))
		if err != nil {
			t.Fatal(err)
		}
		names[i] = u.Username
	}
	coordinators := filepath.Join(t.TempDir(), "coordinators")
	if err := os.WriteFile(coordinators, []byte("physics: "+names[2]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket, other := munged.Start(t), munged.Start(t)
	s := newReadSite(t, config.Serve{Munge: socket, Operators: []string{"@root"}, Coordinators: coordinators}, names)
	host := strings.TrimPrefix(s.url, "http://")
	payload := func(path string) string { return "rt-site/1\nGET\n" + host + "\n" + path }
	for uid, want := range map[uint32]string{1: "01", 2: "2", 3: "0123", 4: "", 0: "01234"} {
		s.sees(t, fmt.Sprint("UID ", uid), want, func(path string) []string {
			return []string{"Authorization", munge(t, uid, socket, payload(path))}
		})
	}
	path := "/v1/runs/" + s.ids[0]
	used := munge(t, 1, socket, payload(path))
	if status, body := s.get(t, path, "Authorization", used); status != http.StatusOK {
		t.Errorf("a valid credential: %d %s", status, body)
	}
	expired := munge(t, 1, socket, payload(path), "--ttl=1")
	middle := len(used) / 2
	changed := []byte(munge(t, 1, socket, payload(path)))
	changed[middle] ^= 1                // base64 stays base64
	time.Sleep(2100 * time.Millisecond) // munged counts whole seconds: the lifetime is over
	for name, credential := range map[string]string{
		"replayed": used, "expired": expired, "tampered": string(changed),
		"for another run":                 munge(t, 1, socket, payload("/v1/runs/"+s.ids[1])),
		"for another part":                munge(t, 1, socket, payload(path+"/record")),
		"for another host":                munge(t, 1, socket, strings.Replace(payload(path), host, "evil.example", 1)),
		"for another method":              munge(t, 1, socket, strings.Replace(payload(path), "GET", "PUT", 1)),
		"without a payload":               munge(t, 1, socket, ""),
		"sealed with another key":         munge(t, 1, other, payload(path)),
		"of root, for another host":       munge(t, 0, socket, strings.Replace(payload(path), host, "evil.example", 1)),
		"for another user to decode":      munge(t, 1, socket, payload(path), "--restrict-uid=2"),
		"not a credential":                "MUNGE MUNGE:AAAA:",
		"a payload instead of credential": "MUNGE " + path,
	} {
		status, body := s.get(t, path, "Authorization", credential)
		isRefused := status == http.StatusUnauthorized && strings.HasPrefix(body, `{"detail":"the request does not show who sends it: `)
		if !isRefused || strings.Contains(body, strings.TrimPrefix(credential, "MUNGE ")) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// A Unix socket is for the user and the group of the process. It replaces the socket of an ended
// process.
func TestListenOnAUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	s := &secrets{conf: config.Serve{Listen: "unix:" + path}}
	ln, scheme, err := s.listen()
	if err != nil || scheme != "unix" {
		t.Fatal(scheme, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o660 {
		t.Error(st.Mode(), err)
	}
	if _, _, err := s.listen(); err == nil || !strings.Contains(err.Error(), "another program has this socket") {
		t.Error(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	ln, _, err = s.listen()
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") })}
	go func() { _ = server.Serve(ln) }() // ends with Close
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) }}}
	resp, err := client.Get("http://site/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); string(body) != "here" || err != nil {
		t.Error(string(body), err)
	}
	for _, address := range []string{"unix:", "unix:socket", "unix:./socket"} {
		if err := checkListen(address); err == nil {
			t.Errorf("%s is accepted", address)
		}
	}
}

// Without the file of read tokens no read token is valid, also if the file of coordinators is broken.
func TestReadTokensAreRevoked(t *testing.T) {
	dir := t.TempDir()
	conf := config.Serve{Munge: "off", ReadTokenFile: filepath.Join(dir, "readers"), Coordinators: filepath.Join(dir, "coordinators")}
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(conf.ReadTokenFile, "first\n")
	write(conf.Coordinators, "")
	a, err := newAccess(conf)
	if err == nil {
		err = a.read()
	}
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when string, accepted string, refused ...string) {
		t.Helper()
		for _, token := range append(refused, accepted) {
			r := httptest.NewRequest("GET", "/v1/jobs", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			if _, err := a.readers.Reader(r); (err == nil) != (token == accepted) {
				t.Errorf("%s: token %q: %v", when, token, err)
			}
		}
	}
	expect("at first", "first", "second")
	write(conf.ReadTokenFile, "second\n")
	if err := os.Remove(conf.Coordinators); err != nil {
		t.Fatal(err)
	}
	if err := a.read(); err == nil || !strings.Contains(err.Error(), "serve.coordinators") {
		t.Errorf("no coordinators: %v", err)
	}
	expect("changed", "second", "first")
	write(conf.ReadTokenFile, "third third third\n")
	if err := a.read(); err == nil {
		t.Error("a broken file is taken")
	}
	expect("broken", "second", "third")
	if err := os.Remove(conf.ReadTokenFile); err != nil {
		t.Fatal(err)
	}
	if err := a.read(); err == nil || !strings.Contains(err.Error(), "no read token is valid") {
		t.Errorf("removed: %v", err)
	}
	for _, token := range []string{"first", "second", "third"} {
		r := httptest.NewRequest("GET", "/v1/jobs", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		if _, err := a.readers.Reader(r); err == nil {
			t.Errorf("removed: token %q is valid", token)
		}
	}
}
