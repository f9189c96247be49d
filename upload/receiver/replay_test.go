package receiver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// segmentOf makes a segment of a journal: five files, and zeros behind them. ends are
// where their records end.
func segmentOf(round string) (b []byte, ends []int) {
	for i := range 5 {
		b = appendRecord(b, fmt.Sprintf("runs/%d", i), []byte(round+strings.Repeat("x", i)))
		ends = append(ends, len(b))
	}
	return append(b, make([]byte, 100)...), ends
}

// A damaged segment loses only its damaged records; it is reported and kept.
func TestADamagedSegmentIsKept(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(b []byte, ends []int)
		newest bool // it is the last segment
		kept   bool
		lost   int // number of the file without a record; -1 for none
	}{
		"a bit":                      {func(b []byte, ends []int) { b[ends[2]-1] ^= 4 }, true, true, 2},
		"a bit, and another segment": {func(b []byte, ends []int) { b[ends[2]-1] ^= 4 }, false, true, 2},
		"a length":                   {func(b []byte, ends []int) { b[ends[1]+11] = 0x7f }, true, true, 2},
		"zeros":                      {func(b []byte, ends []int) { clear(b[ends[1]:ends[2]]) }, true, true, 2},
		"the first byte":             {func(b []byte, _ []int) { b[0]++ }, true, true, 0},
		"the last record is cut":     {func(b []byte, ends []int) { b[ends[4]-1] = 0 }, true, false, 4},
		"cut, and another segment":   {func(b []byte, ends []int) { b[ends[4]-1] = 0 }, false, true, 4},
		"whole":                      {func([]byte, []int) {}, true, false, -1},
		"whole, and another segment": {func([]byte, []int) {}, false, false, -1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			journal := filepath.Join(dir, "journal")
			old, _ := segmentOf("old")
			b, ends := segmentOf("new")
			tc.damage(b, ends)
			err := errors.Join(os.Mkdir(journal, 0o700), os.WriteFile(filepath.Join(journal, "00000001.log"), old, 0o600),
				os.WriteFile(filepath.Join(journal, "00000002.log"), b, 0o600))
			if !tc.newest {
				err = errors.Join(err, os.WriteFile(filepath.Join(journal, "00000003.log"), make([]byte, 100), 0o600))
			}
			if err != nil {
				t.Fatal(err)
			}
			warnings := startTwice(t, dir)
			for i := range 5 {
				want := "new" + strings.Repeat("x", i)
				if i == tc.lost {
					want = "old" + want[3:]
				}
				if got, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("runs/%d", i))); err != nil || string(got) != want {
					t.Errorf("file %d: %q, %v", i, got, err)
				}
			}
			got, err := os.ReadFile(filepath.Join(journal, "00000002.log.damaged"))
			if tc.kept && (!bytes.Equal(got, b) || len(warnings) != 1 || !strings.Contains(warnings[0].Error(), "00000002.log is damaged at byte")) {
				t.Errorf("%d bytes are kept, %v; warnings %v", len(got), err, warnings)
			}
			if !tc.kept && (err == nil || len(warnings) > 0) {
				t.Errorf("%d bytes are kept; warnings %v", len(got), warnings)
			}
		})
	}
}

// startTwice starts a receiver that adds something, and another one.
func startTwice(t *testing.T, dir string) (warnings []error) {
	t.Helper()
	for range 2 {
		rc := newReceiver(t, Config{Dir: dir, Warn: func(err error) { warnings = append(warnings, err) }})
		register(t, rc)
		if err := rc.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return warnings
}

// A start on a kernel that reports no errors of syncfs syncs each file that it restores.
func TestRestoreWithoutSyncfs(t *testing.T) {
	rc := newReceiver(t, Config{})
	j := rc.store.journal
	j.unused = true
	if err := j.restore(map[string][]byte{"runs/1/run.json": []byte("{}"), "runs/2/run.json": nil}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(j.root, "runs/1/run.json")); err != nil || string(got) != "{}" {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzSegment(f *testing.F) {
	b, ends := segmentOf("x")
	f.Add(b)
	b[ends[1]]++
	f.Add(b)
	f.Add(b[:ends[3]-2])
	f.Fuzz(func(t *testing.T, b []byte) {
		files := map[string][]byte{}
		at, torn := readSegment(b, files)
		if at < -1 || at >= len(b) || at < 0 && torn {
			t.Fatalf("%d, %v of %d bytes", at, torn, len(b))
		}
		for name, content := range files {
			if content != nil && !bytes.Contains(b, appendRecord(nil, name, content)) {
				t.Fatalf("%q is not in it", name)
			}
		}
	})
}
