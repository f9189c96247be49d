//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// receiver is a running `rt-site serve`.
type receiver struct {
	url, token string
}

// received is a run as the receiver's API returns it.
type received struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Rows     int64  `json:"rows"`
	ExitCode *int64 `json:"exit_code"`
	Metadata struct {
		ExternalRunID string `json:"external_run_id"`
	} `json:"metadata"`
	Objects []struct {
		Key    string `json:"key"`
		SHA256 string `json:"sha256"`
	} `json:"objects"`
}

// serve starts a receiver on loopback and sets its address and the spool in rt.toml; more
// are additional keys, each followed by its TOML value.
func serve(t *testing.T, s *site, spool string, more ...string) *receiver {
	t.Helper()
	r := &receiver{token: fmt.Sprintf("token-%d", time.Now().UnixNano())}
	token := s.path("token")
	if err := os.WriteFile(token, []byte(r.token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	quote := func(v string) string { return fmt.Sprintf("%q", v) }
	keys := map[string]string{
		"spool.dir": quote(spool), "sentinel.token_file": quote(token), "drain.jitter": `"0s"`,
		"serve.listen": `"127.0.0.1:0"`, "serve.dir": quote(spool + "-received"), "serve.token_file": quote(token),
	}
	for i := 0; i+1 < len(more); i += 2 {
		keys[more[i]] = more[i+1]
	}
	s.configure(keys)
	cmd := exec.Command(s.path("bin", "rt-site"), "--config", s.config(), "serve")
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 100)
	go func() {
		for sc := bufio.NewScanner(errs); sc.Scan(); {
			select {
			case said <- sc.Text():
			default: // the lines so far suffice to explain a failure
			}
		}
		close(said)
	}()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("rt-site serve had ended: %v", err)
		}
		for line := range said {
			if t.Failed() {
				t.Logf("serve: %s", line)
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("rt-site serve: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("rt-site serve: %v", err)
	}
	r.url = strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	keys["sentinel.endpoint"], keys["sentinel.s3_endpoint"] = quote(r.url), quote(r.url)
	s.configure(keys)
	return r
}

// get sends a GET request to the receiver's API.
func (r *receiver) get(t *testing.T, path string) []byte {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, r.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
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

func (r *receiver) runs(t *testing.T) []received {
	t.Helper()
	var list []received
	if err := json.Unmarshal(r.get(t, "/runs"), &list); err != nil {
		t.Fatal(err)
	}
	return list
}
