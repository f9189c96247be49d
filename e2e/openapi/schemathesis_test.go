//go:build openapi

package openapi

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt/e2e/testsite"
)

// TestSchemathesis runs all checks of schemathesis against rt-site with runs in SQLite.
func TestSchemathesis(t *testing.T) {
	dir := t.TempDir()
	_, err := testsite.Fill(t.Context(), filepath.Join(dir, "data"), [3]string{"alice", "bob", "carol"})
	if err != nil {
		t.Fatal(err)
	}
	conf := "[serve]\nread_token_file = \"" + dir + "/readers\"\ntoken_file = \"" + dir + "/writers\"\n"
	for name, text := range map[string]string{"rt.toml": conf, "readers": "reader\n", "writers": "writer\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	site := exec.Command(filepath.Join(os.Getenv("RT_BIN"), "rt-site"), "serve", "--config", dir+"/rt.toml", "--dir", dir+"/data", "--listen", "127.0.0.1:0")
	site.Stderr = os.Stderr
	out, err := site.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := site.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := site.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := site.Wait(); err != nil {
			t.Errorf("rt-site: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	cmd := exec.Command(os.Getenv("RT_SCHEMATHESIS"), "run", url+"/v1/openapi.json", "--header", "Authorization: Bearer reader",
		"--checks", "all", "--max-examples", "200", "--seed", "1", "--no-color")
	cmd.Dir = t.TempDir()
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("schemathesis: %v", err)
	}
	t.Logf("%s", text)
}
