package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt/e2e/await"
	"github.com/resource-tracker/rt/e2e/strict"
	"github.com/resource-tracker/rt/e2e/testsite"
	"github.com/resource-tracker/rt/spool/archive"
)

const testToken = "token-that-no-output-may-hold"

// station is a receiver on loopback that remembers what it was asked.
type station struct {
	t     *testing.T
	url   string
	store http.Handler

	mu      sync.Mutex
	news    chan struct{}                                                   // closed when a request comes, and replaced
	meddle  func(w http.ResponseWriter, r *http.Request, next http.Handler) // may be nil
	asked   []request
	opened  int               // connections
	secrets map[string]bool   // that were given out
	objects map[string]string // hash of the body by path
}

// request is one that came in, with the answer to a registration.
type request struct {
	method, path string
	header       http.Header
	body, answer []byte
}

// newStation returns a receiver that takes complete records.
func newStation(t *testing.T, c testsite.Config) *station {
	t.Helper()
	c.RunOf = archive.Check
	return newSentinel(t, c)
}

// newSentinel returns a receiver that takes no records, as Sentinel.
func newSentinel(t *testing.T, c testsite.Config) *station {
	t.Helper()
	h, closeAll, err := testsite.Open(t.Context(), t.TempDir(), testToken, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeAll(); err != nil {
			t.Error(err)
		}
	})
	s := &station{t: t, store: strict.New(h), news: make(chan struct{}), secrets: map[string]bool{}, objects: map[string]string{}}
	srv := httptest.NewUnstartedServer(s)
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.mu.Lock()
			s.opened++
			s.mu.Unlock()
		}
	}
	srv.Start()
	t.Cleanup(srv.CloseClientConnections)
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

// ServeHTTP notes a request and passes it on.
func (s *station) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the other side was killed
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	s.asked = append(s.asked, request{r.Method, r.URL.Path, r.Header.Clone(), body, nil})
	n, meddle := len(s.asked)-1, s.meddle
	close(s.news)
	s.news = make(chan struct{})
	if r.Method == http.MethodPut {
		sum := fmt.Sprintf("%x", sha256.Sum256(body))
		if before := s.objects[r.URL.Path]; before != "" && before != sum {
			s.t.Errorf("%s was sent twice with different data", r.URL.Path)
		}
		s.objects[r.URL.Path] = sum
	} else if r.Header.Get("Authorization") != "Bearer "+testToken {
		s.t.Errorf("%s %s came without the token", r.Method, r.URL.Path)
	}
	s.mu.Unlock()
	if meddle != nil {
		meddle(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(n, w, r) }))
		return
	}
	s.serve(n, w, r)
}

func (s *station) serve(n int, w http.ResponseWriter, r *http.Request) {
	copied := httptest.NewRecorder()
	s.store.ServeHTTP(copied, r)
	var answer struct {
		Credentials struct {
			SecretKey    string `json:"secret_key"`
			SessionToken string `json:"session_token"`
		} `json:"upload_credentials"`
	}
	_ = json.Unmarshal(copied.Body.Bytes(), &answer) // not every answer has credentials
	s.mu.Lock()
	s.asked[n].answer = bytes.Clone(copied.Body.Bytes())
	for _, secret := range []string{answer.Credentials.SecretKey, answer.Credentials.SessionToken} {
		if secret != "" {
			s.secrets[secret] = true
		}
	}
	s.mu.Unlock()
	for k, v := range copied.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(copied.Code)
	_, _ = w.Write(copied.Body.Bytes()) // the other side may have gone
}

// disturb lets requests go through a fault from now on; nil heals.
func (s *station) disturb(meddle func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	s.mu.Lock()
	s.meddle = meddle
	s.mu.Unlock()
}

// report lets a subtest fail instead of the test that made the station.
func (s *station) report(t *testing.T) { s.mu.Lock(); s.t = t; s.mu.Unlock() }

// uploads returns the uploads of rows: all but the record's.
func (s *station) uploads() []request {
	return slices.DeleteFunc(s.requests("PUT", ""), func(r request) bool { return strings.HasSuffix(r.path, "/run.rtrec") })
}

// requests returns those so far to paths that end so.
func (s *station) requests(method, suffix string) []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.asked), func(r request) bool {
		return r.method != method || !strings.HasSuffix(r.path, suffix)
	})
}

// await waits until so many requests have come to paths that end so, and returns the requests.
func (s *station) await(n int, method, suffix string) []request {
	s.t.Helper()
	for {
		s.mu.Lock()
		news := s.news
		s.mu.Unlock()
		got := s.requests(method, suffix)
		if len(got) >= n {
			return got
		}
		await.Channel(s.t, fmt.Sprintf("%s request %d", method, n), news)
	}
}

// received is what the receiver shows of a run.
type received struct {
	ID         string `json:"id"`
	Status     string `json:"status"`
	ExitCode   *int   `json:"exit_code"`
	DataSource string `json:"data_source"`
	Rows       int    `json:"rows"`
	Metadata   map[string]any
}

// ended returns the runs that are not running, and their number in all.
func (s *station) ended() (list []received, all int) {
	s.t.Helper()
	if err := json.Unmarshal(s.get("/runs"), &list); err != nil {
		s.t.Fatal(err)
	}
	all = len(list)
	return slices.DeleteFunc(list, func(r received) bool { return r.Status == "running" }), all
}

func (s *station) get(path string) []byte {
	req := httptest.NewRequest("GET", path, nil)
	req.Header.Set("Authorization", "Bearer "+testToken)
	w := httptest.NewRecorder()
	s.store.ServeHTTP(w, req)
	return w.Body.Bytes()
}

// streaming is the program with its environment set to stream to the station once
// a second. Everything temporary is in its TMPDIR.
func (s *station) streaming(args ...string) *exec.Cmd {
	s.t.Helper()
	cmd := command(s.t, args...)
	temp := filepath.Join(cmd.Dir, "tmp")
	if err := os.Mkdir(temp, 0o700); err != nil {
		s.t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(rtSpool(s.t))+":"+os.Getenv("PATH"), "TMPDIR="+temp, "SENTINEL_API_TOKEN="+testToken, "SENTINEL_API_URL="+s.url,
		"AWS_ENDPOINT_URL="+s.url, "TRACKER_UPLOAD_INTERVAL=1", "NO_PROXY=127.0.0.1")
	for _, fact := range []string{"VENDOR_ID", "ACCOUNT_ID", "REGION_ID", "ZONE_ID", "INSTANCE_TYPE"} {
		cmd.Env = append(cmd.Env, "TRACKER_CLOUD_"+fact+"=0") // no request to the network
	}
	return cmd
}

// outcome is what a program left behind.
type outcome struct {
	status         int
	stdout, stderr string
	kept           []string // what is in TMPDIR
}

// end waits for a program. It must not have printed a secret.
func (s *station) end(cmd *exec.Cmd, stdout *bytes.Buffer) outcome {
	s.t.Helper()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	o := outcome{status: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: cmd.Stderr.(*bytes.Buffer).String()}
	s.mu.Lock()
	secrets := []string{testToken}
	for secret := range s.secrets {
		secrets = append(secrets, secret)
	}
	s.mu.Unlock()
	for _, secret := range secrets {
		if strings.Contains(o.stdout+o.stderr, secret) {
			s.t.Errorf("a secret is printed: %s", o.stderr)
		}
	}
	o.kept, err = filepath.Glob(filepath.Join(cmd.Dir, "tmp", "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}

func (s *station) run(cmd *exec.Cmd) outcome {
	s.t.Helper()
	return s.end(cmd, s.start(cmd))
}

func (s *station) start(cmd *exec.Cmd) (stdout *bytes.Buffer) {
	s.t.Helper()
	stdout = new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = stdout, new(bytes.Buffer)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	return stdout
}

// later runs the command that a message named, as a person would.
func (s *station) later(cmd *exec.Cmd, stderr string) outcome {
	s.t.Helper()
	_, line, ok := strings.Cut(stderr, "this sends it later: ")
	if !ok {
		s.t.Fatalf("no command is named in %q", stderr)
	}
	line, _, _ = strings.Cut(line, "\n")
	sh := exec.Command("sh", "-c", line)
	sh.Dir = cmd.Dir
	sh.Env = cmd.Env
	return s.run(sh)
}

// cleaning removes what was built for the tests.
type cleaning struct{ *testing.M }

func (c cleaning) Run() int {
	// A child can end by a caught signal. A signal that was ignored around the tests (nohup, a job
	// of a shell's background) would rightly not be passed on.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	status := c.M.Run()
	if built.path != "" {
		_ = os.RemoveAll(filepath.Dir(built.path)) // what stays is in the system's temporary directory
	}
	return status
}

// built is the rt-spool of this source.
var built struct {
	once sync.Once
	path string
	err  error
}

// rtSpool is the program rt-spool, built with the options of the tests. The build cache has it after the
// first time: go run keeps programs there, and go build does not.
func rtSpool(t *testing.T) string {
	t.Helper()
	built.once.Do(func() { built.path, built.err = buildRTSpool() })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// optionOfBuild returns the value of an option of go test, "" if it was not given.
func optionOfBuild(name string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == name {
			return s.Value
		}
	}
	return ""
}

func buildRTSpool() (string, error) {
	dir, err := os.MkdirTemp("", "rt-spool-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "rt-spool")
	args := []string{"run", "-exec", "cp"}
	for _, option := range []string{"-race", "-tags"} {
		if value := optionOfBuild(option); value != "" {
			args = append(args, option+"="+value)
		}
	}
	if out, err := exec.Command("go", append(args, "../rt-spool", path)...).CombinedOutput(); err != nil {
		return path, fmt.Errorf("build rt-spool: %w: %s", err, out)
	}
	return path, nil
}
