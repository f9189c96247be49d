package main

import (
	"bufio"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt/site/api"
)

// takeLog returns what was logged since the last call, and the number of keys now.
func takeLog(l *requestLog, out *strings.Builder) (text string, keys int) {
	l.log.mu.Lock()
	defer l.log.mu.Unlock()
	text = out.String()
	out.Reset()
	return text, len(l.log.left)
}

// A client and a reason are logged once a minute, and then how often they were left out.
func TestRefusedRequestsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		l, err := newRequestLog("", log.New(&out, "", 0))
		if err != nil {
			t.Fatal(err)
		}
		refused := func(client string, status int, reason string) {
			l.write(&api.Answered{Network: client, Method: "POST", URI: "/runs", Status: status, Refusal: reason})
		}
		for range 3 {
			refused("192.0.2.1", 401, "no token")
		}
		refused("192.0.2.1", 429, "")
		refused("192.0.2.2", 403, "not\nyou")
		refused("192.0.2.2", 200, "")
		refused("192.0.2.2", 404, "no run")
		want := "refused 192.0.2.1: 401 no token: \"POST /runs\" of -\nrefused 192.0.2.1: 429 Too Many Requests: \"POST /runs\" of -\nrefused 192.0.2.2: 403 not?you: \"POST /runs\" of -\n"
		if got, _ := takeLog(l, &out); got != want {
			t.Errorf("%s", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got, _ := takeLog(l, &out); got != "refused 192.0.2.1: 401 no token: 2 more in a minute\n" {
			t.Errorf("after a minute: %s", got)
		}
		refused("192.0.2.1", 401, "no token")
		refused("192.0.2.1", 401, "no token")
		l.log.close()
		if got, _ := takeLog(l, &out); strings.Count(got, "\n") != 2 || !strings.HasSuffix(got, ": 1 more in a minute\n") {
			t.Errorf("at the end: %s", got)
		}
	})
}

// A flood of addresses takes bounded memory and a bounded number of lines.
func TestFloodOfRefusedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		l, err := newRequestLog("", log.New(&out, "", 0))
		if err != nil {
			t.Fatal(err)
		}
		const sent = 100_000
		for i := range sent {
			l.write(&api.Answered{Network: fmt.Sprintf("2001:db8:%x::/64", i), Status: 401, Refusal: strings.Repeat("r", 1000)})
		}
		got, keys := takeLog(l, &out)
		if lines := strings.Count(got, "\n"); lines != sparseKeys+1 || keys != sparseKeys+1 || len(got) > 1<<20 {
			t.Errorf("%d lines with %d bytes, %d keys", lines, len(got), keys)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		got, keys = takeLog(l, &out)
		if want := fmt.Sprintf(": %d more in a minute\n", sent-sparseKeys-1); !strings.HasSuffix(got, want) || keys > 0 {
			t.Errorf("%q, %d keys", got, keys)
		}
	})
}

func TestAccessLine(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for want, a := range map[string]*api.Answered{
		`192.0.2.7 - alice [01/Mar/2026:12:00:00 +0000] "GET /v1/jobs?user=alice HTTP/1.1" 200 5123 0.012` + "\n": {
			Client: "192.0.2.7", Sender: "alice", Method: "GET", URI: "/v1/jobs?user=alice", Proto: "HTTP/1.1", Status: 200, Bytes: 5123, Duration: 12 * time.Millisecond,
		},
		`unix - "a\"\nb" [01/Mar/2026:12:00:00 +0000] "GET /\n\"\x1b HTTP/1.0" 401 0 0.000` + "\n": {
			Client: "unix", Sender: "a\"\nb", Method: "GET", URI: "/\n\"\x1b", Proto: "HTTP/1.0", Status: 401,
		},
	} {
		a.Begin = begin
		if got := accessLine(a); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The running service logs each request without its token, also after the file was rotated.
func TestAccessLog(t *testing.T) {
	dir := t.TempDir()
	token, conf, access := filepath.Join(dir, "tokens"), filepath.Join(dir, "rt.toml"), filepath.Join(dir, "access.log")
	write(t, token, testToken+" nodes")
	write(t, conf, fmt.Sprintf("[serve]\nlisten = \"127.0.0.1:0\"\ndir = %q\ntoken_file = %q\nread_token_file = %q\naccess_log = %q\n", filepath.Join(dir, "data"), token, filepath.Join(dir, "read"), access))
	write(t, filepath.Join(dir, "read"), testToken+" user=alice")
	cmd := exec.Command(program(t), "--config", conf, "serve")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err, stderr.String())
	}
	url := strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	get := func(path, token string) {
		req, err := http.NewRequest("GET", url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Cookie", "session="+testToken)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	get("/runs?limit=1", testToken)
	get("/runs?token="+testToken, "wrong")
	get("/runs", "wrong")
	rotated := access + ".1"
	if err := os.Rename(access, rotated); err != nil {
		t.Fatal(err)
	}
	get("/v1/whoami", testToken)
	get("/a%0Ab%22%20-%20root", "wrong")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err, stderr.String())
	}
	for path, want := range map[string][]string{
		rotated: {`- nodes \[.*\] "GET /runs\?limit=1 HTTP/1.1" 200 [1-9]\d* \d+\.\d{3}`, `- - \[.*\] "GET /runs\?... HTTP/1.1" 401 .*`, `- - \[.*\] "GET /runs HTTP/1.1" 401 .*`},
		access:  {`- alice \[.*\] "GET /v1/whoami HTTP/1.1" 200 .*`, `- - \[.*\] "GET /a%0Ab%22%20-%20root HTTP/1.1" 404 .*`},
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pattern := `\A127\.0\.0\.1 ` + strings.Join(want, `\n127\.0\.0\.1 `) + `\n\z`
		isLogged, err := regexp.Match(pattern, text)
		if err != nil || !isLogged || strings.Contains(string(text), testToken) {
			t.Errorf("%s: %v\n%s", path, err, text)
		}
	}
	if info, err := os.Stat(access); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("%v, %v", info, err)
	}
	const refused = `refused 127.0.0.1: 401 the token is missing or not known here: `
	if log := stderr.String(); !strings.Contains(log, refused+`"GET /runs?..." of -`) || !strings.Contains(log, refused+"1 more in a minute") || strings.Contains(log, testToken) {
		t.Errorf("%s", log)
	}
}

// A file that cannot be written is an error of the configuration.
func TestAccessLogThatCannotBeWritten(t *testing.T) {
	if _, err := newRequestLog(filepath.Join(t.TempDir(), "none", "log"), nil); err == nil || !strings.Contains(err.Error(), "serve.access_log: ") {
		t.Error(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Fatal(err)
	}
	if _, err := newRequestLog(link, nil); err == nil {
		t.Error("it follows a link")
	}
}
