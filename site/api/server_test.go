package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

const token = "tok-0123456789abcdef"

func newServer(t testing.TB, c Config) *Server {
	t.Helper()
	if c.Registry == nil {
		c.Registry, c.Objects = newStores(t)
	}
	if c.RunOf == nil {
		c.RunOf = runOf
	}
	c.Tokens = tokensOf("another", token)
	s, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newWithoutRecords returns a server that accepts no complete records, as the public service.
func newWithoutRecords(t testing.TB) *Server {
	t.Helper()
	r, m := newStores(t)
	s, err := New(t.Context(), Config{Registry: r, Objects: m, Tokens: tokensOf("another", token)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tokensOf returns tokens without names.
func tokensOf(texts ...string) (tokens []Token) {
	for _, text := range texts {
		tokens = append(tokens, Token{Hash: site.HashToken(text)})
	}
	return tokens
}

// runOf reads a record of these tests: JSON.
func runOf(record io.Reader) (r rt.Run, err error) {
	err = json.NewDecoder(record).Decode(&r)
	return r, err
}

// api sends one request with the token.
func api(t testing.TB, s http.Handler, method, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
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

func register(t testing.TB, s *Server) grant {
	t.Helper()
	code, body := api(t, s, "POST", "/runs", `{"job_name":"fit"}`)
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
	s := newServer(t, Config{})
	g := register(t, s)
	for _, path := range []string{"/runs", "/runs/" + g.RunID, "/runs/" + g.RunID + "/data", "/runs/" + g.RunID + "/finish"} {
		for _, auth := range []string{"", "Bearer", "Bearer wrong", "Basic " + token, token, "Bearer " + token + "x"} {
			r := httptest.NewRequest("POST", path, strings.NewReader("{}"))
			r.Header.Set("Authorization", auth)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != 401 || w.Header().Get("WWW-Authenticate") != "Bearer" || strings.Contains(w.Body.String(), token) {
				t.Errorf("%s with %q: %d %s", path, auth, w.Code, w.Body)
			}
		}
	}
}

func TestUnknownPathsAndRuns(t *testing.T) {
	s := newServer(t, Config{})
	g := register(t, s)
	for _, tc := range []struct{ method, path string }{
		{"GET", "/"}, {"GET", "/x"}, {"GET", "/runs/nope"}, {"POST", "/runs/" + g.RunID}, {"GET", "/runs/" + g.RunID + "/x"},
		{"GET", "/runs/../runs"}, {"GET", "/runs/%2e%2e/data"}, {"DELETE", "/runs"}, {"GET", "/runs/a/b/c"}, {"PUT", "/other/key"},
		{"POST", "/runs/20260101t000000-aaaaaaaaaaaaaaaaaaaaaaaaaa/finish"},
	} {
		status, body := api(t, s, tc.method, tc.path, "{}")
		var e struct{ Detail string }
		if err := json.Unmarshal([]byte(body), &e); status != 404 || err != nil || e.Detail == "" {
			t.Errorf("%s %s: %d %s", tc.method, tc.path, status, body)
		}
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	inline := base64.StdEncoding.EncodeToString(packed(t, "a\n1\n"))
	other := base64.StdEncoding.EncodeToString(packed(t, "a\n2\n"))
	s := newServer(t, Config{})
	id, idPlain := register(t, s).RunID, register(t, s).RunID
	for _, tc := range []struct {
		name   string
		path   string
		body   string
		status int
	}{
		{"not JSON", "/runs", "{", 400},
		{"an array", "/runs", "[]", 400},
		{"null", "/runs", "null", 400},
		{"too long", "/runs", `{"x":"` + strings.Repeat("x", maxMetadata) + `"}`, 413},
		{"any field", "/runs", `{"pid":1}`, 201},
		{"no status", id, `{"data_source":"inline","data_csv":""}`, 422},
		{"no source", id, `{"run_status":"finished"}`, 422},
		{"wrong type", id, `{"run_status":7}`, 422},
		{"another run", id, `{"run_id":"x","run_status":"finished","data_source":"inline"}`, 422},
		{"no such object", id, `{"run_status":"finished","data_source":"s3","data_uris":["s3://rt/runs/` + id + `/1"]}`, 422},
		{"a foreign object", id, `{"run_status":"finished","data_source":"s3","data_uris":["s3://other/1"]}`, 422},
		{"plain text", idPlain, `{"run_status":"failed","exit_code":1,"finished_at":"2026-01-01T00:00:00Z","data_source":"inline","data_csv":"a\n1\n"}`, 200},
		{"right", id, `{"run_id":"` + id + `","run_status":"finished","data_source":"inline","data_csv":"` + inline + `"}`, 200},
		{"the same again", id, `{"run_status":"finished","exit_code":null,"data_source":"inline","data_csv":"` + inline + `"}`, 200},
		{"another end", id, `{"run_status":"failed","exit_code":1,"data_source":"inline","data_csv":"` + inline + `"}`, 200},
		{"other rows", id, `{"run_status":"failed","exit_code":1,"data_source":"inline","data_csv":"` + other + `"}`, 409},
	} {
		path := tc.path
		if path != "/runs" {
			path = "/runs/" + path + "/finish"
		}
		if status, body := api(t, s, "POST", path, tc.body); status != tc.status {
			t.Errorf("%s: %d %s", tc.name, status, body)
		}
	}
	for _, id := range []string{id, idPlain} {
		if _, csv := api(t, s, "GET", "/runs/"+id+"/data", ""); csv != "a\n1\n" {
			t.Errorf("inline data: %q", csv)
		}
	}
}

func TestDataHasOneHeaderAndAFinishedRunStays(t *testing.T) {
	s := newServer(t, Config{})
	g := register(t, s)
	var uris []string
	for i, csv := range []string{"a,b\n1,2\n", "a,b\n", "a,b\n3,4\n5,6\n"} {
		key := fmt.Sprintf("/runs/%s/%06d.csv.gz", g.RunID, i+1)
		if status, answer := put(t, s, signedPut{g: g, path: "/rt" + key, body: packed(t, csv)}); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		uris = append(uris, `"s3://rt`+key+`"`)
	}
	finish := `{"run_status":"finished","exit_code":0,"data_source":"s3","data_uris":[` + strings.Join(uris, ",") + `]}`
	if status, body := api(t, s, "POST", "/runs/"+g.RunID+"/finish", finish); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if _, csv := api(t, s, "GET", "/runs/"+g.RunID+"/data", ""); csv != "a,b\n1,2\n3,4\n5,6\n" {
		t.Errorf("%q", csv)
	}
	first := "/rt/runs/" + g.RunID + "/000001.csv.gz"
	if status, _ := put(t, s, signedPut{g: g, path: first, body: packed(t, "a,b\n1,2\n")}); status != 200 {
		t.Errorf("the same object again: %d", status)
	}
	for _, path := range []string{first, "/rt/runs/" + g.RunID + "/000009.csv.gz"} {
		if status, answer := put(t, s, signedPut{g: g, path: path, body: packed(t, "a,b\n9,9\n")}); status != 409 {
			t.Errorf("%s after the finish: %d %s", path, status, answer)
		}
	}
}

// A repeated finish is no other run.
func TestARunIsFinishedOnce(t *testing.T) {
	var finished []string
	s := newServer(t, Config{Finished: func(f site.Finish) { finished = append(finished, f.RunStatus) }})
	g := register(t, s)
	for range 2 {
		if status, body := api(t, s, "POST", "/runs/"+g.RunID+"/finish", `{"run_status":"failed","data_source":"inline","data_csv":"a\n1\n"}`); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	if len(finished) != 1 || finished[0] != "failed" {
		t.Errorf("the finished runs are %q", finished)
	}
}

// The name of the purpose of a request is one of a few.
func TestRoutes(t *testing.T) {
	s := newServer(t, Config{Metrics: http.NotFoundHandler()})
	for request, want := range map[string]string{
		"PUT /rt/runs/x/1": "object", "GET /v1/jobs": "read", "GET /v1/runs/any": "read", "GET /v1/any": "other", "GET /metrics": "metrics", "PUT /nodes": "node",
		"POST /runs": "register", "GET /runs": "list", "GET /runs/x/data": "list", "POST /runs/x/finish": "finish", "POST /runs/x/refresh-credentials": "refresh",
		"GET /": "other", "GET /any": "other", "POST /runs/x/any": "other", "GET /runs/x/data/y": "other",
	} {
		method, path, _ := strings.Cut(request, " ")
		if got := s.Route(httptest.NewRequest(method, path, nil)); got != want {
			t.Errorf("%s is %s: want %s", request, got, want)
		}
	}
}

// A run that cannot be read is listed with an error, which has no internals. The others are listed
// as they are.
func TestARunThatCannotBeReadIsListed(t *testing.T) {
	var faults []error
	s := newServer(t, Config{Fault: func(err error) { faults = append(faults, err) }})
	bad, good := register(t, s), register(t, s)
	memoryOf(s).query(t, "UPDATE run SET record = 'secret' WHERE id = ?", bad.RunID)
	_, body := api(t, s, "GET", "/runs", "")
	var list []map[string]any
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list) != 2 {
		t.Fatalf("%s: %v", body, err)
	}
	if list[0]["id"] == good.RunID { // ids of one second are in random order
		slices.Reverse(list)
	}
	isListed := list[0]["error"] != nil && list[1]["status"] == "running" && list[0]["id"] == bad.RunID
	if !isListed || strings.Contains(body, "secret") {
		t.Errorf("%s", body)
	}
	if status, body := api(t, s, "GET", "/runs/"+bad.RunID, ""); status != 500 || strings.Contains(body, "secret") {
		t.Errorf("%d %s", status, body)
	}
	if len(faults) != 2 || !errors.Is(faults[0], site.ErrDamaged) {
		t.Errorf("%v", faults)
	}
}

func TestConcurrentUploadsAndFinishes(t *testing.T) {
	s := newServer(t, Config{})
	g := register(t, s)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			u := signedPut{g: g, path: fmt.Sprintf("/rt/runs/%s/%06d.csv.gz", g.RunID, i%4), body: packed(t, fmt.Sprintf("a\n%d\n", i%4))}
			if status, answer := put(t, s, u); status != 200 {
				t.Errorf("%d %s", status, answer)
			}
			api(t, s, "GET", "/runs", "")
		})
	}
	all.Wait()
	finish := `{"run_status":"finished","data_source":"s3","data_uris":["s3://rt/runs/` + g.RunID + `/000000.csv.gz"]}`
	for range 8 {
		all.Go(func() {
			if status, body := api(t, s, "POST", "/runs/"+g.RunID+"/finish", finish); status != 200 {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	all.Wait()
}

func TestParseTokens(t *testing.T) {
	h := site.HashToken(token)
	got, err := ParseTokens([]byte("# ours\n\n  sha256:" + hex.EncodeToString(h[:]) + "  node-1.b_C\r\nanother\n#x y\nthird\tnode-1.b_C\nfourth user=a.b@c\n"))
	want := []Token{{Hash: h, Name: "node-1.b_C"}, {Hash: site.HashToken("another")}, {Hash: site.HashToken("third"), Name: "node-1.b_C"}, {Hash: site.HashToken("fourth"), User: "a.b@c"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{
		"", "# nothing\n", "a b c", "a b|c", "a user=", "a user=b|c", "a b user=c", "a user:b", "a b\na c", "a\na user=b", "a #b", "a " + strings.Repeat("a", 66), "sha256:12", "sha256:12 name",
		"sha256:" + strings.Repeat("g", 64), "sha256:" + strings.Repeat("a", 66),
	} {
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
	tokens := tokensOf(token)
	for _, c := range []Config{
		{}, {Tokens: tokens, MaxObject: 256<<20 + 1},
	} {
		c.Registry, c.Objects = newStores(t)
		if _, err := New(t.Context(), c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}
