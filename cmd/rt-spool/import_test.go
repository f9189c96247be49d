package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/runtest"
	"github.com/resource-tracker/rt/internal/convert/ftdc"
)

// What root imports belongs to the owner of the spool, who delivers it.
func TestImportedRunsBelongToTheSpool(t *testing.T) {
	dir := t.TempDir()
	uid := os.Getuid()
	if uid == 0 {
		uid = 12345
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "a.ftdc")
	var text bytes.Buffer
	r := runtest.Spool(t, rt.Run{Identity: rt.Identity{Node: "n1"}, Ending: rt.Ending{State: rt.StateRunning}}, []rt.Snapshot{{Seq: 1, Boot: 1e12, Wall: 1772367180e9}})
	if err := ftdc.Export(t.Context(), &text, r); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"rt-spool", "--config", "/dev/null", "--spool", dir, "import", "-f", "ftdc", file}, &stdout, &stderr); status != 0 {
		t.Fatal(status, stderr.String())
	}
	st, err := os.Stat(strings.TrimSpace(stdout.String()))
	if err != nil {
		t.Fatal(err)
	}
	if owner := int(st.Sys().(*syscall.Stat_t).Uid); owner != uid {
		t.Errorf("it belongs to %d, not to %d", owner, uid)
	}
}
