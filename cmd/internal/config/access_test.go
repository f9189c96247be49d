package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

func TestReaders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "group")
	if err := os.WriteFile(file, []byte("root:x:0:\nbroken\nhelp:x:x:\nhelp:x:4711:ada\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]struct {
		readers Readers
		err     string
	}{
		"owner":      {readers: Readers{Owner: true}},
		"root":       {},
		"group:help": {readers: Readers{Owner: true, Group: rt.Some[uint64](4711)}},
		"group:12":   {readers: Readers{Owner: true, Group: rt.Some[uint64](12)}},
		"group:none": {readers: Readers{Owner: true}, err: "named by its number"},
		"group:":     {err: "none of"},
		"everybody":  {err: "none of"},
	} {
		readers, err := Spool{Access: text}.Readers(file)
		if readers != want.readers || (err == nil) != (want.err == "") || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%q: %+v, %v", text, readers, err)
		}
	}
	if _, err := (Spool{Access: "group:help"}).Readers(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a file that is not there: no error")
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "1": 1, "512B": 512, "64MiB": 64 << 20, "2 GiB": 2 << 30, "1TiB": 1 << 40} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s.Bytes != want {
			t.Errorf("%q: %d, %v", text, s.Bytes, err)
		}
		var back Size
		if err := back.UnmarshalText([]byte(s.String())); err != nil || back != s {
			t.Errorf("%q is written as %q, which reads as %d, %v", text, s, back.Bytes, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5GiB", "64MB", "9223372036854775807KiB", "x"} {
		if err := new(Size).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "64MiB") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
