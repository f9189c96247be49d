package file

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for _, text := range []string{"one", "two"} {
		temp, err := os.CreateTemp(dir, "new-*")
		if err != nil {
			t.Fatal(err)
		}
		if err := Replace(temp, path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("%q, %v, want %q", got, err, text)
		}
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o640 {
		t.Errorf("%v, %v", st, err)
	}
	temp, err := os.CreateTemp(dir, "new-*")
	if err != nil {
		t.Fatal(err)
	}
	if err := Replace(temp, filepath.Join(dir, "missing", "a"), nil, 0o600); err == nil {
		t.Error("a file in a directory that does not exist was replaced")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}
