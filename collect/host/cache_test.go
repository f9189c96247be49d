package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "host.json")
	first := Cache{BootID: "b", CollectedAt: now, Suppressed: []string{"host_ip"}, Host: full}
	for _, c := range []Cache{first, {BootID: "b2", CollectedAt: now.Add(time.Hour)}} { // the second replaces the first
		if err := Save(path, c); err != nil {
			t.Fatal(err)
		}
		got, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c, got, opts); d != "" {
			t.Errorf("(-saved +loaded):\n%s", d)
		}
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v; want one that trackers can read", st.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestSaveFails(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "host.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := Save(filepath.Join(dir, "host.json"), Cache{})
	if err == nil || !strings.Contains(err.Error(), "tracker.host_cache") {
		t.Errorf("over a directory: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// Known uses the cache of this machine, otherwise it reads the files.
func TestKnown(t *testing.T) {
	const id = "machine-1"
	cached := rt.Host{HostID: id, HostName: "old-name", HostIP: "10.9.9.9", CPUModel: "cached", CloudVendorID: "aws", CloudAccountID: "1"}
	used := rt.Host{HostID: id, HostName: "n1", CPUModel: "cached", CloudVendorID: "aws", CloudAccountID: "1"}
	local := rt.Host{HostID: id, HostName: "n1"}
	foreign := cached
	foreign.HostID = "machine-2"
	nameless := cached
	nameless.HostID = ""
	for name, tc := range map[string]struct {
		cache Cache
		vars  map[string]string
		want  rt.Host
		stale bool
	}{
		"of this boot":                    {Cache{BootID: "boot-1", CollectedAt: now.Add(-400 * 24 * time.Hour), Host: cached}, nil, used, false},
		"young":                           {Cache{BootID: "boot-0", CollectedAt: now.Add(-29 * 24 * time.Hour), Host: cached}, nil, used, false},
		"old":                             {Cache{BootID: "boot-0", CollectedAt: now.Add(-31 * 24 * time.Hour), Host: cached}, nil, local, true},
		"of the future":                   {Cache{BootID: "boot-0", CollectedAt: now.Add(24 * time.Hour), Host: cached}, nil, local, true},
		"of another machine":              {Cache{BootID: "boot-0", CollectedAt: now, Host: foreign}, nil, local, true},
		"of an unknown machine":           {Cache{BootID: "boot-0", CollectedAt: now, Host: nameless}, nil, local, true},
		"without a boot":                  {Cache{CollectedAt: now, Host: foreign}, nil, local, true},
		"its writer kept back":            {Cache{BootID: "boot-1", CollectedAt: now, Host: cached, Suppressed: []string{"host_name", "cloud_account_id"}}, nil, rt.Host{HostID: id, CPUModel: "cached", CloudVendorID: "aws"}, false},
		"its reader holds back":           {Cache{BootID: "boot-1", CollectedAt: now, Host: cached}, map[string]string{"TRACKER_CLOUD_VENDOR_ID": "0", "TRACKER_CLOUD_ACCOUNT_ID": ""}, rt.Host{HostID: id, HostName: "n1", CPUModel: "cached"}, false},
		"old, the reader is holding back": {Cache{CollectedAt: now, Host: cached}.aged(), map[string]string{"TRACKER_HOST_NAME": "0"}, rt.Host{HostID: id}, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "host.json")
			if err := Save(path, tc.cache); err != nil {
				t.Fatal(err)
			}
			got, err := Known(path, machine(t, id, "boot-1"), env(tc.vars), now)
			if errors.Is(err, errStale) != tc.stale || err != nil && !tc.stale {
				t.Errorf("error %v", err)
			}
			if d := cmp.Diff(tc.want, got, opts); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func (c Cache) aged() Cache {
	c.CollectedAt = c.CollectedAt.Add(-2 * maxAge)
	return c
}

func TestKnownWithoutCache(t *testing.T) {
	roots := machine(t, "machine-1", "boot-1")
	local := rt.Host{HostID: "machine-1", HostName: "n1"}
	if got, err := Known("", roots, noEnv, now); err != nil || got != local {
		t.Errorf("switched off: %+v, %v", got, err)
	}
	if got, err := Known(filepath.Join(t.TempDir(), "none"), roots, noEnv, now); !errors.Is(err, fs.ErrNotExist) || got != local {
		t.Errorf("missing: %+v, %v", got, err)
	}
}

// Only the first line of a file counts, so the cache of a machine whose machine-id has more lines is read.
func TestFirstLineOfAFile(t *testing.T) {
	roots := machine(t, "machine-1 \nanother", "boot-1")
	if id := roots.ID(); id != "machine-1" {
		t.Errorf("the host is %q", id)
	}
	path := filepath.Join(t.TempDir(), "host.json")
	if err := Save(path, Cache{BootID: "boot-1", CollectedAt: now, Host: Local(roots, noEnv)}); err != nil {
		t.Fatal(err)
	}
	if got, err := Known(path, roots, noEnv, now); err != nil || got.HostID != "machine-1" {
		t.Errorf("from the cache: %+v, %v", got, err)
	}
}

// A damaged file is an error with its path, and the machine's files are read.
func TestDamagedCache(t *testing.T) {
	head := `{"boot_id":"boot-1","collected_at":"2026-03-01T12:00:00Z","host":`
	for name, text := range map[string]string{
		"empty":            "",
		"cut":              head + `{"host_id":"machine-1"`,
		"another document": `[1,2]`,
		"no time":          `{"boot_id":"boot-1","host":{"host_id":"machine-1"}}`,
		"a number as text": head + `{"host_vcpus":"8"}}`,
		"control bytes":    head + `{"host_cpu_model":"a\u001b[31m"}}`,
		"a long text":      head + `{"host_cpu_model":"` + strings.Repeat("x", 257) + `"}}`,
		"too long":         head + `{}}` + strings.Repeat(" ", maxCache),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "host.json")
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			got, err := Known(path, machine(t, "machine-1", "boot-1"), noEnv, now)
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "rt-spool host") {
				t.Errorf("error %v", err)
			}
			if want := (rt.Host{HostID: "machine-1", HostName: "n1"}); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

func FuzzParseCache(f *testing.F) {
	f.Add([]byte(`{"boot_id":"b","collected_at":"2026-03-01T12:00:00Z","suppressed":["host_ip"],"host":{"host_id":"i-1","host_vcpus":8,"host_storage_gb":500.25}}`))
	f.Add([]byte(`{"collected_at":"2026-03-01T12:00:00Z","host":{"host_cpu_model":"\u0007"}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parse(text)
		if err != nil {
			return
		}
		for _, fact := range Facts(c.Host) {
			if len(fact.Value) > maxText+64 || strings.ContainsAny(fact.Value, "\x00\n\x1b") {
				t.Errorf("%s: %q passed", fact.Name, fact.Value)
			}
		}
	})
}
