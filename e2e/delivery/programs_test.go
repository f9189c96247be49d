//go:build e2e

package delivery

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const token = "the-token-of-these-tests"

// site is one directory with rt-spool and rt-site, its configuration, a spool and a receiver's data.
type site struct {
	dir, bin string   // bin has the programs
	preload  string   // the library of testdata/kill.c
	env      []string // added to the environment of the programs
}

// newSite finds the programs below RT_BIN, or builds them, and compiles kill.c.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{dir: t.TempDir()}
	s.bin = os.Getenv("RT_BIN")
	if s.bin == "" {
		s.bin = filepath.Join(s.dir, "bin")
		command(t, "make", "-C", "../..", "build", "BIN="+s.bin)
	}
	s.preload = s.path("kill.so")
	command(t, "gcc", "-O1", "-shared", "-fPIC", "-o", s.preload, "testdata/kill.c")
	s.furnish(t)
	return s
}

// another returns a site with the same programs.
func (s *site) another(t *testing.T) *site {
	t.Helper()
	o := &site{dir: t.TempDir(), bin: s.bin, preload: s.preload}
	o.furnish(t)
	return o
}

func (s *site) furnish(t *testing.T) {
	t.Helper()
	for _, d := range []string{"spool", "state", "delivered"} {
		if err := os.Mkdir(s.path(d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(s.path("token"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.configure(t, "")
}

// TestMain lets as many parts of a test run at the same time as there are: most of the time
// they wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(parts)); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// configure writes rt.toml; keys are lines of the section drain.
func (s *site) configure(t *testing.T, endpoint string, keys ...string) {
	t.Helper()
	text := fmt.Sprintf("[spool]\ndir = %q\n[tracker]\nstate_dir = %q\n[sentinel]\nendpoint = %q\ns3_endpoint = %q\ntoken_file = %q\n[drain]\n%s\n",
		s.path("spool"), s.path("state"), endpoint, endpoint, s.path("token"), strings.Join(keys, "\n"))
	if err := os.WriteFile(s.path("rt.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// rtSpool makes the command of a verb of rt-spool.
func (s *site) rtSpool(args ...string) *exec.Cmd { return s.command("rt-spool", args...) }

func (s *site) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, program), append([]string{"--config", s.path("rt.toml")}, args...)...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "TZ=UTC", "HOME=" + s.dir}, s.env...)
	return cmd
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// receiver is an `rt-site serve` that can be killed and started again.
type receiver struct {
	site *site
	addr string
	cmd  *exec.Cmd
	log  *os.File
}

// addresses gives each receiver its own loopback address: while it is dead, no other
// process takes its port, not even for an outgoing connection.
var addresses atomic.Int64

// serve starts a receiver on a free port, with its data in the site's directory.
func serve(t *testing.T, s *site) *receiver {
	t.Helper()
	return serveTo(t, s, os.Stderr)
}

// serveTo starts a receiver that logs to a file.
func serveTo(t *testing.T, s *site, log *os.File) *receiver {
	t.Helper()
	r := &receiver{site: s, log: log, addr: fmt.Sprintf("127.0.0.%d:0", 2+addresses.Add(1)%250)}
	r.start(t)
	t.Cleanup(func() { r.stop(t, syscall.SIGTERM) })
	return r
}

func (r *receiver) start(t *testing.T) {
	t.Helper()
	r.cmd = r.site.command("rt-site", "serve", "--listen", r.addr, "--dir", r.site.path("received"), "--token-file", r.site.path("token"))
	r.cmd.Stderr = r.log
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("serve: %v", err)
	}
	r.addr = strings.TrimSpace(strings.TrimPrefix(line, "listening on http://"))
}

func (r *receiver) stop(t *testing.T, how syscall.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(how); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Wait(); err != nil && how != syscall.SIGKILL {
		t.Errorf("serve: %v", err)
	}
}

func (r *receiver) get(t *testing.T, path string) []byte {
	t.Helper()
	return r.getAs(t, token, path)
}

// getAs gets a path with a token.
func (r *receiver) getAs(t *testing.T, token, path string) []byte {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+r.addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s %v\n%s", path, resp.Status, err, body)
	}
	return body
}

// received is a run as the receiver's API returns it.
type received struct {
	ID       string    `json:"id"`
	Status   string    `json:"status"`
	Finished time.Time `json:"finished"`
	Rows     int64     `json:"rows"`
	Record   struct {
		SHA256 string `json:"sha256"`
	} `json:"record"`
	Metadata struct {
		ExternalRunID string `json:"external_run_id"`
	} `json:"metadata"`
}

// runs returns the runs of the receiver by external id.
func (r *receiver) runs(t *testing.T) map[string][]received {
	t.Helper()
	byID := map[string][]received{}
	for after := ""; ; {
		var page []received
		if err := json.Unmarshal(r.get(t, "/runs?after="+after), &page); err != nil {
			t.Fatal(err)
		}
		for _, run := range page {
			byID[run.Metadata.ExternalRunID] = append(byID[run.Metadata.ExternalRunID], run)
			after = run.ID
		}
		if len(page) == 0 {
			return byID
		}
	}
}

// envNumber returns the number in an environment variable.
func envNumber(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s: %q is not a number of at least 1", name, text)
	}
	return n
}
