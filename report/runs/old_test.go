package runs

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/spool"
)

// Files of another version of rt are not called damaged.
func TestFilesOfBeforeTheFirstReleaseAreNoDamage(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../spool/testdata/before-0.2.0")); err != nil {
		t.Fatal(err)
	}
	entries, err := spool.List(dir)
	if err != nil || len(entries) != 2 {
		t.Fatal(entries, err)
	}
	checked, err := Check(t.Context(), entries)
	var out bytes.Buffer
	for _, c := range checked {
		c.Print(&out)
	}
	text := err.Error() + "\n" + out.String()
	isWrong := strings.Contains(text, "damaged") || strings.Contains(text, "BAD") || errors.Is(err, ErrDamaged)
	if isWrong || !strings.Contains(text, "rt 0.1.0") || !strings.Contains(text, "2 of 2 files") {
		t.Error(text)
	}
	mixed := Unreadable([]error{entries[0].Err, errors.New("broken")}, 5)
	if !errors.Is(mixed, ErrDamaged) {
		t.Errorf("one is damaged: %v", mixed)
	}
}
