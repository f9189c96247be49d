package e2e

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestLinks checks which packages each program links. The hooks delay every job and must
// start fast. The tracker is long-lived and starts as root on a compute node, so it has no
// network code. resource-tracker has only sockets, for live telemetry: rt-spool uploads for it.
func TestLinks(t *testing.T) {
	const (
		sqlite = "github.com/mattn/go-sqlite3"
		cgo    = "runtime/cgo"
	)
	server := []string{ // only rt-site stores the runs of a site
		"github.com/resource-tracker/rt/site/api", "github.com/resource-tracker/rt/site/registry", "github.com/resource-tracker/rt/site/objects",
		"github.com/resource-tracker/rt/site/auth", "github.com/resource-tracker/rt/site/upkeep", "github.com/resource-tracker/rt/site/page",
		"github.com/jackc/pgx/v5", "github.com/pressly/goose/v3", "github.com/minio/minio-go/v7",
		"github.com/coreos/go-oidc/v3/oidc",
	}
	collectors := []string{ // a service reads nothing of its machine
		"github.com/resource-tracker/rt/collect", "github.com/resource-tracker/rt/collect/cgroup", "github.com/resource-tracker/rt/collect/proc",
		"github.com/resource-tracker/rt/collect/gpu", "github.com/resource-tracker/rt/collect/perf", "github.com/resource-tracker/rt/tracker",
	}
	lake := []string{"github.com/resource-tracker/rt/site/lake", "github.com/apache/iceberg-go", "github.com/apache/arrow-go/v18/arrow"} // 55 MB
	screens := []string{"charm.land/bubbletea/v2", "charm.land/bubbles/v2/key", "github.com/guptarohit/asciigraph"}                      // only rt-spool draws
	hook := []string{"net", "net/http", "crypto/tls", "log/syslog", sqlite, cgo, "github.com/urfave/cli/v2"}
	for program, c := range map[string]struct {
		cgo       string
		forbidden []string
		expected  string // a package that must be found: proves that the check works
	}{
		"rt-prolog":        {"0", hook, "github.com/resource-tracker/rt/slurm/launch"},
		"rt-epilog":        {"0", hook, "github.com/resource-tracker/rt/slurm/launch"},
		"rt-tracker":       {"1", []string{"github.com/prometheus/client_golang/prometheus", "github.com/klauspost/compress/zstd", "net", "net/http", "crypto/tls", "log/syslog", "github.com/urfave/cli/v2"}, sqlite},
		"resource-tracker": {"1", []string{"net/http", "crypto/tls", "github.com/prometheus/client_golang/prometheus", "log/syslog", "testing", "text/template", "github.com/urfave/cli/v2"}, sqlite}, // the linker keeps every method if text/template is linked
		"rt-spool":         {"1", []string{"log/syslog", "testing"}, "github.com/resource-tracker/rt/site/client"},
		"rt-lake":          {"1", append(slices.Clone(collectors), "log/syslog", "github.com/urfave/cli/v2"), "github.com/resource-tracker/rt/site/lake"},
		"rt-site":          {"1", append(slices.Clone(collectors), "log/syslog", "testing", "github.com/urfave/cli/v2"), "github.com/resource-tracker/rt/site/api"},
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
			if program != "rt-lake" {
				forbidden = append(slices.Clone(forbidden), lake...)
			}
			if program != "rt-site" && program != "rt-lake" {
				forbidden = append(slices.Clone(forbidden), server...)
			}
			for _, f := range forbidden {
				if slices.Contains(deps, f) {
					t.Errorf("%s links %s; `go list -deps -f '{{.ImportPath}}: {{.Imports}}' ./cmd/%s` shows the importer", program, f, program)
				}
			}
		})
	}
}
