package receiver

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
)

const token = "tok-0123456789abcdef"

func newReceiver(t *testing.T, c Config) *Receiver {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	c.Tokens = []TokenHash{HashToken("another"), HashToken(token)}
	rc, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return rc
}

// api sends one request with the token.
func api(t testing.TB, rc http.Handler, method, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	rc.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// grant is the answer to a registration.
type grant struct {
	RunID       string `json:"run_id"`
	Prefix      string `json:"upload_uri_prefix"`
	Credentials struct {
		AccessKey    string `json:"access_key"`
		SecretKey    string `json:"secret_key"`
		SessionToken string `json:"session_token"`
		Expiration   string `json:"expiration"`
		ExpiresAt    string `json:"expires_at"`
		Region       string `json:"region"`
	} `json:"upload_credentials"`
}

func register(t testing.TB, rc *Receiver) grant {
	t.Helper()
	code, body := api(t, rc, "POST", "/runs", `{"job_name":"fit"}`)
	var g grant
	if err := json.Unmarshal([]byte(body), &g); err != nil || code != http.StatusCreated {
		t.Fatalf("%d %s: %v", code, body, err)
	}
	return g
}

func packed(t testing.TB, csv string) []byte {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	if _, err := io.WriteString(gz, csv); err != nil {
		t.Fatal(err)
	}
	if err := gz.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestEveryPathWantsTheToken(t *testing.T) {
	rc := newReceiver(t, Config{})
	g := register(t, rc)
	for _, path := range []string{"/runs", "/runs/" + g.RunID, "/runs/" + g.RunID + "/data", "/runs/" + g.RunID + "/finish"} {
		for _, auth := range []string{"", "Bearer", "Bearer wrong", "Basic " + token, token, "Bearer " + token + "x"} {
			r := httptest.NewRequest("POST", path, strings.NewReader("{}"))
			r.Header.Set("Authorization", auth)
			w := httptest.NewRecorder()
			rc.ServeHTTP(w, r)
			if w.Code != 401 || w.Header().Get("WWW-Authenticate") != "Bearer" || strings.Contains(w.Body.String(), token) {
				t.Errorf("%s with %q: %d %s", path, auth, w.Code, w.Body)
			}
		}
	}
}

func TestUnknownPathsAndRuns(t *testing.T) {
	rc := newReceiver(t, Config{})
	g := register(t, rc)
	for _, tc := range []struct{ method, path string }{
		{"GET", "/"}, {"GET", "/x"}, {"GET", "/runs/nope"}, {"POST", "/runs/" + g.RunID}, {"GET", "/runs/" + g.RunID + "/x"},
		{"GET", "/runs/../runs"}, {"GET", "/runs/%2e%2e/data"}, {"DELETE", "/runs"}, {"GET", "/runs/a/b/c"}, {"PUT", "/other/key"},
		{"POST", "/runs/20260101t000000-aaaaaaaaaaaaaaaaaaaaaaaaaa/finish"},
	} {
		status, body := api(t, rc, tc.method, tc.path, "{}")
		var e struct{ Detail string }
		if err := json.Unmarshal([]byte(body), &e); status != 404 || err != nil || e.Detail == "" {
			t.Errorf("%s %s: %d %s", tc.method, tc.path, status, body)
		}
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	inline := base64.StdEncoding.EncodeToString(packed(t, "a\n1\n"))
	other := base64.StdEncoding.EncodeToString(packed(t, "a\n2\n"))
	live, spec := newReceiver(t, Config{Dialect: "live"}), newReceiver(t, Config{Dialect: "spec"})
	idLive, idSpec := register(t, live).RunID, register(t, spec).RunID
	for _, tc := range []struct {
		name   string
		rc     *Receiver
		path   string
		body   string
		status int
	}{
		{"not JSON", spec, "/runs", "{", 400},
		{"an array", spec, "/runs", "[]", 400},
		{"null", spec, "/runs", "null", 400},
		{"too long", spec, "/runs", `{"x":"` + strings.Repeat("x", maxMetadata) + `"}`, 413},
		{"pid, live", live, "/runs", `{"pid":1}`, 422},
		{"host_name, live", live, "/runs", `{"host_name":"n"}`, 422},
		{"known fields, live", live, "/runs", `{"host_hostname":"n","command":"[]","tags":{}}`, 201},
		{"any field, spec", spec, "/runs", `{"pid":1}`, 201},
		{"no status", spec, idSpec, `{"data_source":"inline","data_csv":""}`, 422},
		{"no source", spec, idSpec, `{"run_status":"finished"}`, 422},
		{"wrong type", spec, idSpec, `{"run_status":7}`, 422},
		{"another run", spec, idSpec, `{"run_id":"x","run_status":"finished","data_source":"inline"}`, 422},
		{"no such object", spec, idSpec, `{"run_status":"finished","data_source":"s3","data_uris":["s3://rt/runs/` + idSpec + `/1"]}`, 422},
		{"a foreign object", spec, idSpec, `{"run_status":"finished","data_source":"s3","data_uris":["s3://other/1"]}`, 422},
		{"plain text, spec", spec, idSpec, `{"run_status":"finished","data_source":"inline","data_csv":"a,b\n"}`, 422},
		{"run_id, live", live, idLive, `{"run_id":"` + idLive + `","run_status":"finished","data_source":"inline","data_csv":"a\n"}`, 422},
		{"right, live", live, idLive, `{"run_status":"failed","exit_code":1,"finished_at":"2026-01-01T00:00:00Z","data_source":"inline","data_csv":"a\n1\n"}`, 200},
		{"right, spec", spec, idSpec, `{"run_id":"` + idSpec + `","run_status":"finished","data_source":"inline","data_csv":"` + inline + `"}`, 200},
		{"the same again", spec, idSpec, `{"run_status":"finished","exit_code":null,"data_source":"inline","data_csv":"` + inline + `"}`, 200},
		{"another end", spec, idSpec, `{"run_status":"failed","exit_code":1,"data_source":"inline","data_csv":"` + inline + `"}`, 200},
		{"other rows", spec, idSpec, `{"run_status":"failed","exit_code":1,"data_source":"inline","data_csv":"` + other + `"}`, 409},
	} {
		path := tc.path
		if path != "/runs" {
			path = "/runs/" + path + "/finish"
		}
		if status, body := api(t, tc.rc, "POST", path, tc.body); status != tc.status {
			t.Errorf("%s: %d %s", tc.name, status, body)
		}
	}
	for rc, id := range map[*Receiver]string{live: idLive, spec: idSpec} {
		if _, csv := api(t, rc, "GET", "/runs/"+id+"/data", ""); csv != "a\n1\n" {
			t.Errorf("inline data: %q", csv)
		}
	}
}

func TestDataHasOneHeaderAndAFinishedRunStays(t *testing.T) {
	rc := newReceiver(t, Config{})
	g := register(t, rc)
	var uris []string
	for i, csv := range []string{"a,b\n1,2\n", "a,b\n", "a,b\n3,4\n5,6\n"} {
		key := fmt.Sprintf("/runs/%s/%06d.csv.gz", g.RunID, i+1)
		if status, answer := put(t, rc, signedPut{g: g, path: "/rt" + key, body: packed(t, csv)}); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		uris = append(uris, `"s3://rt`+key+`"`)
	}
	finish := `{"run_status":"finished","exit_code":0,"data_source":"s3","data_uris":[` + strings.Join(uris, ",") + `]}`
	if status, body := api(t, rc, "POST", "/runs/"+g.RunID+"/finish", finish); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if _, csv := api(t, rc, "GET", "/runs/"+g.RunID+"/data", ""); csv != "a,b\n1,2\n3,4\n5,6\n" {
		t.Errorf("%q", csv)
	}
	first := "/rt/runs/" + g.RunID + "/000001.csv.gz"
	if status, _ := put(t, rc, signedPut{g: g, path: first, body: packed(t, "a,b\n1,2\n")}); status != 200 {
		t.Errorf("the same object again: %d", status)
	}
	for _, path := range []string{first, "/rt/runs/" + g.RunID + "/000009.csv.gz"} {
		if status, answer := put(t, rc, signedPut{g: g, path: path, body: packed(t, "a,b\n9,9\n")}); status != 409 {
			t.Errorf("%s after the finish: %d %s", path, status, answer)
		}
	}
}

func TestStateSurvivesAKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	rc := newReceiver(t, Config{Dir: dir})
	g := register(t, rc)
	u := signedPut{g: g, path: "/rt/runs/" + g.RunID + "/000001.csv.gz", body: packed(t, "a\n1\n")}
	if status, _ := put(t, rc, u); status != 200 {
		t.Fatal(status)
	}
	// What a kill leaves behind: a half-written file, a registration without run.json.
	if err := os.WriteFile(filepath.Join(dir, "tmp", "new-1"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "runs", "20260101t000000-aaaaaaaaaaaaaaaaaaaaaaaaaa"), 0o700); err != nil {
		t.Fatal(err)
	}
	if second, err := New(Config{Dir: dir, Tokens: []TokenHash{HashToken(token)}}); err == nil || !strings.Contains(err.Error(), "another receiver keeps its data in "+dir) {
		t.Errorf("two receivers share a directory: %v, %v", second, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "tmp", "new-1")); err != nil {
		t.Errorf("the second one removed what the first one was writing: %v", err)
	}
	_, before := api(t, rc, "GET", "/runs", "")
	if err := rc.Close(); err != nil {
		t.Fatal(err)
	}
	again := newReceiver(t, Config{Dir: dir})
	if _, err := os.Stat(filepath.Join(dir, "tmp", "new-1")); !os.IsNotExist(err) {
		t.Errorf("the half-written file is there: %v", err)
	}
	_, after := api(t, again, "GET", "/runs", "")
	if before != after || !strings.Contains(after, `"rows":1`) || strings.Count(after, `"id"`) != 1 {
		t.Errorf("%s\n%s", before, after)
	}
	u.path = "/rt/runs/" + g.RunID + "/000002.csv.gz"
	if status, answer := put(t, again, u); status != 200 {
		t.Errorf("credentials of before: %d %s", status, answer)
	}
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func TestADamagedRunIsShownAndTheOthersGoOn(t *testing.T) {
	rc := newReceiver(t, Config{})
	bad, good := register(t, rc), register(t, rc)
	if err := os.WriteFile(filepath.Join(rc.store.runDir(bad.RunID), "run.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, body := api(t, rc, "GET", "/runs", "")
	var list []map[string]any
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list) != 2 {
		t.Fatalf("%s: %v", body, err)
	}
	for _, x := range list {
		if (x["id"] == bad.RunID) != (x["error"] != nil) || x["id"] == good.RunID && x["status"] != "running" {
			t.Errorf("%v", x)
		}
	}
	if status, body := api(t, rc, "GET", "/runs/"+bad.RunID, ""); status != 500 || strings.Contains(body, rc.store.dir) {
		t.Errorf("%d %s", status, body)
	}
}

func TestConcurrentUploadsAndFinishes(t *testing.T) {
	rc := newReceiver(t, Config{})
	g := register(t, rc)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			u := signedPut{g: g, path: fmt.Sprintf("/rt/runs/%s/%06d.csv.gz", g.RunID, i%4), body: packed(t, fmt.Sprintf("a\n%d\n", i%4))}
			if status, answer := put(t, rc, u); status != 200 {
				t.Errorf("%d %s", status, answer)
			}
			api(t, rc, "GET", "/runs", "")
		})
	}
	all.Wait()
	finish := `{"run_status":"finished","data_source":"s3","data_uris":["s3://rt/runs/` + g.RunID + `/000000.csv.gz"]}`
	for range 8 {
		all.Go(func() {
			if status, body := api(t, rc, "POST", "/runs/"+g.RunID+"/finish", finish); status != 200 {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	all.Wait()
}

func TestParseTokens(t *testing.T) {
	h := HashToken(token)
	got, err := ParseTokens([]byte("# ours\n\n  sha256:" + hex.EncodeToString(h[:]) + "\r\nanother\n"))
	if err != nil || len(got) != 2 || got[0] != h || got[1] != HashToken("another") {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "# nothing\n", "a b", "sha256:12", "sha256:" + strings.Repeat("g", 64), "sha256:" + strings.Repeat("a", 66)} {
		if _, err := ParseTokens([]byte(bad)); err == nil || bad != "" && strings.Contains(err.Error(), strings.Repeat("a", 66)) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestServeStopsWithItsContext(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	started, finish := make(chan bool), make(chan bool)
	ended := make(chan error)
	go func() {
		ended <- Serve(ctx, ln, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(started)
			<-finish
			w.WriteHeader(http.StatusNoContent)
		}), time.Minute, nil)
	}()
	status := make(chan int)
	go func() {
		resp, err := http.Get("http://" + ln.Addr().String())
		if err != nil {
			t.Error(err)
			status <- 0
			return
		}
		_ = resp.Body.Close()
		status <- resp.StatusCode
	}()
	<-started
	cancel()
	close(finish)
	if got := <-status; got != http.StatusNoContent {
		t.Errorf("the request under way got %d", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestNewRefusesBadConfiguration(t *testing.T) {
	tokens := []TokenHash{HashToken(token)}
	for _, c := range []Config{
		{Dir: t.TempDir()}, {Dir: t.TempDir(), Tokens: tokens, Bucket: "runs"}, {Dir: t.TempDir(), Tokens: tokens, Bucket: "A/b"},
		{Dir: t.TempDir(), Tokens: tokens, Prefix: "/x"}, {Dir: t.TempDir(), Tokens: tokens, Prefix: "a/../b"},
		{Dir: t.TempDir(), Tokens: tokens, Dialect: "auto"}, {Dir: "/proc/nowhere", Tokens: tokens},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}
