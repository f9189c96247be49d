package e2e

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestLinks holds what each program may link. The hooks stand in every job's way
// and must start fast; the tracker is long-lived and starts as root on a compute
// node, so no network code is in it.
func TestLinks(t *testing.T) {
	const (
		sqlite = "github.com/mattn/go-sqlite3"
		cgo    = "runtime/cgo"
	)
	screens := []string{"charm.land/bubbletea/v2", "github.com/guptarohit/asciigraph"} // rt-spool alone draws
	hook := []string{"net", "net/http", "crypto/tls", "log/syslog", sqlite, cgo, "github.com/urfave/cli/v2"}
	for program, c := range map[string]struct {
		cgo       string
		forbidden []string
		expected  string // without it the check would prove nothing
	}{
		"rt-prolog":        {"0", hook, "github.com/resource-tracker/rt/slurm/hook"},
		"rt-epilog":        {"0", hook, "github.com/resource-tracker/rt/slurm/hook"},
		"rt-tracker":       {"1", []string{"net", "net/http", "crypto/tls", "log/syslog", "github.com/urfave/cli/v2"}, sqlite},
		"resource-tracker": {"1", []string{"log/syslog", "testing", "text/template", "github.com/urfave/cli/v2"}, sqlite}, // the linker keeps every method beside text/template
		"rt-spool":         {"1", []string{"log/syslog", "testing"}, "net/http"},
	} {
		t.Run(program, func(t *testing.T) {
			cmd := exec.Command("go", "list", "-deps", "-tags", "urfave_cli_no_docs,sqlite_omit_load_extension", "../cmd/"+program)
			cmd.Env = append(cmd.Environ(), "CGO_ENABLED="+c.cgo)
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("go list -deps: %v", err)
			}
			deps := strings.Fields(string(out))
			if !slices.Contains(deps, c.expected) {
				t.Fatalf("%s is not among the %d packages that %s links", c.expected, len(deps), program)
			}
			forbidden := c.forbidden
			if program != "rt-spool" {
				forbidden = append(slices.Clone(forbidden), screens...)
			}
			for _, f := range forbidden {
				if slices.Contains(deps, f) {
					t.Errorf("%s links %s; `go list -deps -f '{{.ImportPath}}: {{.Imports}}' ./cmd/%s` shows through whom", program, f, program)
				}
			}
		})
	}
}
