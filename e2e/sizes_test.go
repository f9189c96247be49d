//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSizes checks the size limit in section 12 of the specification, 15 MiB, and our own budgets. So it finds a
// package that is linked by mistake.
func TestSizes(t *testing.T) {
	bin := os.Getenv("RT_BIN")
	if bin == "" {
		bin = t.TempDir()
		command(t, "make", "-C", "..", "build", "BIN="+bin)
	}
	for program, most := range map[string]int64{"rt-prolog": 3 << 20, "rt-epilog": 3 << 20, "rt-tracker": 8 << 20, "resource-tracker": 10e6} {
		info, err := os.Stat(filepath.Join(bin, program))
		if err != nil {
			t.Error(err)
		} else if info.Size() > most {
			t.Errorf("%s has %d bytes, more than %d", program, info.Size(), most)
		}
	}
}
