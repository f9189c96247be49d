package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
)

func TestParse(t *testing.T) {
	cfg, err := parse("rt.toml", []byte(`
[spool]
dir = "/data/rt"
commit_interval = "2s"
[hooks]
breaker_failures = 3
[sentinel]
endpoint = "https://sentinel.example"
dialect = "live"
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Spool.Dir = "/data/rt"
	want.Spool.CommitInterval = Duration{2 * time.Second}
	want.Hooks.BreakerFailures = 3
	want.Sentinel.Endpoint = "https://sentinel.example"
	want.Sentinel.Dialect = "live"
	if d := cmp.Diff(want, cfg); d != "" {
		t.Errorf("parsed configuration (-want +got):\n%s", d)
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string // all of them are in the message
	}{
		{"unknown key", "[spool]\ndir = \"/a\"\ndirr = \"/b\"\n", []string{"rt.toml:3:", "unknown key", "spool.dirr"}},
		{"unknown section", "[spol]\ndir = \"/a\"\n", []string{"rt.toml:1:", "unknown key", "spol"}},
		{"key above its section", "dir = \"/a\"\n", []string{"rt.toml:1:", "unknown key", "dir"}},
		{"wrong type, string", "\n[spool]\ndir = 5\n", []string{"rt.toml:3:", "spool.dir"}},
		{"wrong type, integer", "[hooks]\nbreaker_failures = \"many\"\n", []string{"rt.toml:2:", "hooks.breaker_failures"}},
		{"wrong type, float", "[drain]\nconcurrency = 1.5\n", []string{"rt.toml:2:", "drain.concurrency"}},
		{"number for a duration", "[tracker]\ninterval = 10\n", []string{"rt.toml:2:", "tracker.interval"}},
		{"not a duration", "[tracker]\ninterval = \"ten\"\n", []string{"rt.toml:2:", "tracker.interval", `"ten" is not a duration`}},
		{"a table for a value", "[tracker.interval]\nx = 1\n", []string{"rt.toml:2:", "tracker.interval"}},
		{"not TOML", "[spool\n", []string{"rt.toml:1:"}},
		{"twice", "[spool]\ndir = \"/a\"\ndir = \"/b\"\n", []string{"rt.toml:3:", "dir"}},
		{"relative path", "[spool]\ndir = \"spool\"\n", []string{"rt.toml:2:", "spool.dir", "absolute"}},
		{"interval of zero", "[tracker]\ninterval = \"0s\"\n", []string{"rt.toml:2:", "tracker.interval", "between"}},
		{"negative duration", "[drain]\njitter = \"-1s\"\n", []string{"rt.toml:2:", "drain.jitter", "between"}},
		{"too long for a Prolog", "[hooks]\nready_timeout = \"10m\"\n", []string{"rt.toml:2:", "hooks.ready_timeout", "between"}},
		{"concurrency of zero", "[drain]\nconcurrency = 0\n", []string{"rt.toml:2:", "drain.concurrency", "between 1 and"}},
		{"dialect", "[sentinel]\ndialect = \"new\"\n", []string{"rt.toml:2:", "sentinel.dialect"}},
		{"sacct", "[drain]\nsacct = \"sacct\"\n", []string{"rt.toml:2:", "drain.sacct", "absolute"}},
		{"scope", "[drain]\nscope = \"rack\"\n", []string{"rt.toml:2:", "drain.scope"}},
		{"privacy", "[privacy]\nusers = \"hashed\"\n", []string{"rt.toml:2:", "privacy.users", "pseudonym"}},
		{"privacy, empty", "[privacy]\n\njobs = \"\"\n", []string{"rt.toml:3:", "privacy.jobs", "pseudonym"}},
		{"privacy of a command", "[privacy]\ncommands = \"pseudonym\"\n", []string{"rt.toml:2:", "privacy.commands", "none"}},
		{"privacy of a receiver", "[sentinel]\nprivacy_directories = \"no\"\n", []string{"rt.toml:2:", "sentinel.privacy_directories", "pseudonym"}},
		{"privacy of a command, receiver", "[sentinel]\nprivacy_commands = \"pseudonym\"\n", []string{"rt.toml:2:", "sentinel.privacy_commands", "none"}},
		{"relative key file", "[privacy]\nkey_file = \"key\"\n", []string{"rt.toml:2:", "privacy.key_file", "absolute"}},
		{"endpoint", "[sentinel]\nendpoint = \"sentinel.example\"\n", []string{"rt.toml:2:", "sentinel.endpoint", "https://"}},
		{"log target", "[log]\ntarget = \"stderr\"\n", []string{"rt.toml:2:", "log.target", "syslog"}},
		{"host cache", "[tracker]\nhost_cache = \"host.json\"\n", []string{"rt.toml:2:", "tracker.host_cache", "absolute"}},
		{"half of TLS", "[serve]\ntls_cert = \"/c\"\n", []string{"rt.toml:2:", "serve.tls_key"}},
		{"number for a size", "[spool]\nquota_run = 64\n", []string{"rt.toml:2:", "spool.quota_run"}},
		{"not a size", "[spool]\nquota_run = \"64MB\"\n", []string{"rt.toml:2:", "spool.quota_run", "64MiB"}},
		{"quota that is too small", "[spool]\nquota_node = \"4KiB\"\n", []string{"rt.toml:2:", "spool.quota_node", "1MiB"}},
		{"access", "[spool]\naccess = \"all\"\n", []string{"rt.toml:2:", "spool.access", "group:NAME"}},
		{"no user", "[spool]\nuser = \"\"\n", []string{"rt.toml:", "spool.user"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse("rt.toml", []byte(tt.text))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q is more than one line", err)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing.toml")
	if _, err := Load(missing); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("a missing file of a given path: error %v, want one with the path", err)
	}
	empty := filepath.Join(dir, "rt.toml")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := Load(empty)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Default(), cfg); d != "" {
		t.Errorf("an empty file is not the default (-want +got):\n%s", d)
	}
}

// The defaults pass the checks and a round trip through TOML.
func TestDefault(t *testing.T) {
	cfg := Default()
	if bad := cfg.check(cfg.keys()); bad != nil {
		t.Error(bad.in("default", nil))
	}
	text, err := toml.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	back, err := parse("default", text)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(cfg, back); d != "" {
		t.Errorf("round trip (-want +got):\n%s", d)
	}
}

func TestKeys(t *testing.T) {
	keys := Keys()
	for _, want := range []string{"spool.dir", "tracker.state_dir", "hooks.disable_file", "serve.tls_key"} {
		if !slices.Contains(keys, want) {
			t.Errorf("Keys() lacks %s", want)
		}
	}
	for i, key := range keys {
		section, name, _ := strings.Cut(key, ".")
		if section == "" || name == "" {
			t.Errorf("key %q has no section or no name: a tag is missing", key)
		}
		if slices.Contains(keys[:i], key) {
			t.Errorf("key %s is repeated", key)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("[spool]\ndir = \"/data/rt\"\n")
	f.Add("[tracker]\ninterval = \"10s\"\nfirst_for = \"1m\"\n")
	f.Add("[hooks]\nbreaker_failures = 3 # three\n")
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := parse("rt.toml", []byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "rt.toml:") {
				t.Errorf("error %q does not name the file", err)
			}
			return
		}
		if bad := cfg.check(cfg.keys()); bad != nil {
			t.Errorf("parse returned what check rejects: %v", bad.in("rt.toml", nil))
		}
	})
}

// Keys returns every key of rt.toml as "section.key", in the order of Config.
func Keys() []string {
	var names []string
	for _, k := range new(Config).keys() {
		names = append(names, k.name())
	}
	return names
}

// The keys of the receiver replace the section's keys, one by one.
func TestPrivacyOfAReceiver(t *testing.T) {
	p := Privacy{Users: "pseudonym", Jobs: "none", Directories: "plain", Commands: "none", KeyFile: "/key"}
	if got := p.For(Sentinel{}); got != p || !got.NeedsKey() {
		t.Errorf("%+v, want %+v", got, p)
	}
	got := p.For(Sentinel{PrivacyUsers: "none", PrivacyDirectories: "none", PrivacyCommands: "plain"})
	if want := (Privacy{Users: "none", Jobs: "none", Directories: "none", Commands: "plain", KeyFile: "/key"}); got != want || got.NeedsKey() {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, p := range []Privacy{{Users: "pseudonym"}, {Jobs: "pseudonym"}, {Directories: "pseudonym"}} {
		if !p.NeedsKey() {
			t.Errorf("%+v needs no key", p)
		}
	}
}
