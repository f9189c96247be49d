package environ

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadProcess(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "7"), 0o700); err != nil {
		t.Fatal(err)
	}
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, "7", "environ"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	buf := make([]byte, 0, 64)
	for text, want := range map[string]Env{
		"":                         {},
		"A=1\x00A=2\x00B\x00C=x=y": {"A": "1", "C": "x=y"},
		"A=1\x00B=2\x00" + strings.Repeat("y", MaxProcess): {"A": "1", "B": "2"},
		"A=1\x00B=" + strings.Repeat("y", MaxProcess):      {"A": "1"},
		strings.Repeat("y", MaxProcess):                    {},
	} {
		put(text)
		got, err := ReadProcess(root, 7, buf)
		if err != nil || len(got) > MaxProcess {
			t.Errorf("%.20q: %d bytes, %v", text, len(got), err)
		}
		if d := cmp.Diff(want, Parse(got)); d != "" {
			t.Errorf("%.20q (-want +got):\n%s", text, d)
		}
	}
	if _, err := ReadProcess(root, 8, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process that has ended: %v", err)
	}
}
