package file

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The directory above each new directory is synced, and the one above a directory that is there.
func TestMkdirAllSyncsTheParents(t *testing.T) {
	var synced []string
	fault := error(nil)
	sync = func(dir string) error {
		synced = append(synced, dir)
		return fault
	}
	t.Cleanup(func() { sync = SyncDir })
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b", "c")
	for _, want := range [][]string{
		{filepath.Join(top, "a", "b"), filepath.Join(top, "a"), top},
		{filepath.Join(top, "a", "b")},
	} {
		synced = nil
		if err := MkdirAll(dir, 0o700); err != nil || !slices.Equal(synced, want) {
			t.Errorf("%q were synced, not %q; %v", synced, want, err)
		}
	}
	if st, err := os.Stat(dir); err != nil || st.Mode() != fs.ModeDir|0o700 {
		t.Errorf("%v, %v", st, err)
	}
	for cause, want := range map[error]bool{fs.ErrPermission: false, fs.ErrClosed: true} {
		fault = cause
		if err := MkdirAll(dir, 0o700); (err != nil) != want {
			t.Errorf("%v: %v", cause, err)
		}
	}
}
