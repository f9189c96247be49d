package main

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/e2e/await"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/api"
	"github.com/resource-tracker/rt/site/registry"
	"github.com/resource-tracker/rt/upload"
)

// The test binary is also the program that the scripts run.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"rt-site": main})
}

const testToken = "token-that-no-output-may-hold"

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "HTTP_PROXY", "http_proxy"} {
				e.Setenv(name, "")
			}
			e.Setenv("GORACE", "atexit_sleep_ms=0") // of the many short processes, under -race
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"await": cmdAwait, "session": cmdSession},
	})
}

// cmdAwait waits until a file has a line.
func cmdAwait(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	ts.Check(await.Changed(filepath.Dir(path), func() bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), "\n")
	}))
}

// cmdSession stores a session: session DIR ID KIND USER PAGE.
func cmdSession(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	r, err := registry.Open(context.Background(), filepath.Join(dir, "registry.db"), registry.Config{})
	ts.Check(err)
	ts.Check(os.MkdirAll(filepath.Join(dir, "objects"), 0o700))
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := site.Session{ID: args[1], Kind: site.SessionKind(args[2]), User: args[3], Target: args[4], Address: "10.1.2.3", Created: at, Expires: at.AddDate(100, 0, 0)}
	ts.Check(errors.Join(r.Sessions.Add(context.Background(), s, site.HashToken(args[1])), r.Close()))
}

// The client and the service state the same contract, each for itself.
func TestContract(t *testing.T) {
	for service, client := range map[string]string{
		api.StatusFinished: upload.StatusFinished, api.StatusFailed: upload.StatusFailed, api.HeaderUndone: upload.HeaderUndone,
		site.RecordName: upload.RecordName,
	} {
		if service != client {
			t.Errorf("the service has %q, the client %q", service, client)
		}
	}
}

func TestServe(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "tokens")
	if err := os.WriteFile(token, []byte(testToken), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "--config", "/dev/null", "serve", "--listen", "127.0.0.1:0", "--dir", filepath.Join(dir, "data"), "--token-file", token)
	cmd.Args[0] = "rt-site"
	cmd.Path = program(t)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("serve printed nothing: %v; %s", err, stderr.String())
	}
	url := strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	for given, want := range map[string]int{testToken: http.StatusOK, "wrong": http.StatusUnauthorized} {
		req, err := http.NewRequest("GET", url+"/runs", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+given)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET /runs with token %q: %s, want %d", given, resp.Status, want)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("serve after SIGTERM: %v; %s", err, stderr.String())
	}
	if strings.Contains(stderr.String(), testToken) {
		t.Error("the token is in the log")
	}
	err = filepath.WalkDir(filepath.Join(dir, "data"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// program is the test binary under the program's name, as testscript puts it.
func program(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "rt-site")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// The credentials of the object store come from a file or the environment, never from elsewhere.
func TestKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	text := "[other]\naws_access_key_id = no\n[default]\naws_access_key_id = a=\n aws_secret_access_key=b\naws_session_token = c \n[third]\naws_secret_access_key = no\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
	getenv := func(name string) string { return environment[name] }
	if k, err := sitestores.KeysOf(file, getenv); err != nil || k != (sitestores.Keys{Access: "a=", Secret: "b", Session: "c"}) {
		t.Errorf("%+v, %v", k, err)
	}
	if k, err := sitestores.KeysOf("", getenv); err != nil || k != (sitestores.Keys{Access: "x", Secret: "y", Session: ""}) {
		t.Errorf("%+v, %v", k, err)
	}
	delete(environment, "AWS_SECRET_ACCESS_KEY")
	if _, err := sitestores.KeysOf("", getenv); err == nil || strings.Contains(err.Error(), "\"x\"") {
		t.Error(err)
	}
}
