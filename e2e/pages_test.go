//go:build e2e

package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	pageBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")
	// slowBlock has the commands of a page that build the programs or download others.
	slowBlock = regexp.MustCompile(`(?m)^(make build|.*pip install)`)
	// computing is how long a page lets a command compute.
	computing = regexp.MustCompile(`timeout \S*5\S*( \* id\)\))?`)
)

// TestPages executes the commands of the readers' pages that need no Slurm, as they stand there. Only the directory,
// the port and a computed time differ.
func TestPages(t *testing.T) {
	tests := []struct {
		page string
		want []string
	}{
		{"for-site-operators.md", []string{" delivered ", `"job_name":"first-look"`, "Readings     ", "2 checks of a receiver: 2 ok", "2 runs with 4 objects", "0 problems"}},
		{"for-data-engineers.md", []string{"wrote 2 runs", ".parquet", `"job_name":"md5"`}},
	}
	s := newSite(t, workDir(t))
	if built := os.Getenv("RT_BIN"); built != "" {
		if err := os.Symlink(filepath.Join(built, "rt-lake"), s.path("bin", "rt-lake")); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range tests {
		t.Run(tt.page, func(t *testing.T) {
			script := strings.ReplaceAll(pageCommands(t, tt.page), "/tmp/rt-", t.TempDir()+"/rt-")
			script = regexp.MustCompile(`127\.0\.0\.1:847\d`).ReplaceAllString(script, freeAddress(t))
			script = computing.ReplaceAllString(script, "timeout 0.2")
			cmd := exec.Command("bash", "-ec", "trap 'kill $(jobs -p) 2>/dev/null || :' EXIT\n"+script)
			cmd.Env = append(os.Environ(), "PATH="+s.path("bin")+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, script, out)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("the commands do not print %q:\n%s", want, out)
				}
			}
		})
	}
}

// pageCommands returns the commands of a page, without those that take minutes.
func pageCommands(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, block := range pageBlock.FindAllStringSubmatch(string(text), -1) {
		if !slowBlock.MatchString(block[1]) {
			script.WriteString(block[1])
		}
	}
	return script.String()
}

// freeAddress returns an address on loopback that nothing listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
