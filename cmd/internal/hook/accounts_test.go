package hook

import (
	"os"
	"path/filepath"
	"testing"

	slurmhook "github.com/resource-tracker/rt/slurm/launch"
)

func TestAccounts(t *testing.T) {
	dir := t.TempDir()
	passwd := filepath.Join(dir, "passwd")
	if err := os.WriteFile(passwd, []byte("root:x:0:0:root:/root:/bin/sh\n+\nrt:x:991:985::/:/sbin/nologin\nodd:x:-1:985::/:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if u := trackerUser(passwd, "rt"); u == nil || *u != (slurmhook.User{UID: 991, GID: 985}) {
		t.Errorf("user rt is %v", u)
	}
	for _, name := range []string{"nobody", "odd", "+", ""} {
		if u := trackerUser(passwd, name); u != nil {
			t.Errorf("user %q is %v, want none", name, u)
		}
	}
	if u := trackerUser(filepath.Join(dir, "missing"), "rt"); u != nil {
		t.Errorf("user of a missing file is %v", u)
	}
}
