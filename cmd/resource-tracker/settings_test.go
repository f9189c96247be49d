package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/cli"
)

// parse makes the settings of a command line without doing what they say.
func parse(t *testing.T, args ...string) (settings, error) {
	t.Helper()
	line, err := parseCommandLine(args, options(), os.LookupEnv)
	if err != nil {
		return settings{}, err
	}
	return newSettings(line)
}

// bare takes away what the machine that tests has set.
func bare(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "RESOURCE_TRACKER_") || strings.HasPrefix(name, "TRACKER_") || strings.HasPrefix(name, "SLURM_") {
			t.Setenv(name, "")
		}
	}
	t.Chdir(t.TempDir())
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Section 3.1: flags win over the environment, it over the file, and the
// file over the default.
func TestIntervalPrecedence(t *testing.T) {
	five := writeConfig(t, "[tracker]\ninterval_secs = 5\n")
	tests := []struct {
		name, env string
		args      []string
		want      time.Duration
	}{
		{"default", "", nil, time.Second},
		{"file", "", []string{"-c", five}, 5 * time.Second},
		{"environment", "3", []string{"-c", five}, 3 * time.Second},
		{"flag", "3", []string{"-c", five, "--interval", "2"}, 2 * time.Second},
		{"short flag", "3", []string{"-i", "4"}, 4 * time.Second},
		{"a year", "", []string{"-i", "31536000"}, 365 * 24 * time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bare(t)
			t.Setenv("RESOURCE_TRACKER_INTERVAL", tt.env)
			s, err := parse(t, tt.args...)
			if err != nil || s.interval != tt.want {
				t.Errorf("%s, %v; want %s", s.interval, err, tt.want)
			}
		})
	}
}

func TestIntervalsThatCannotBe(t *testing.T) {
	bare(t)
	for _, v := range []string{"0", "-1", "", "x", "1s", "0x10", "1e3", "31536001", "18446744073709551616"} {
		if _, err := parse(t, "--interval="+v); exitStatus(err) != cli.ExitUsage {
			t.Errorf("--interval=%s: %v", v, err)
		}
	}
}

// Every field of section 9.3 is a flag and a variable.
func TestMetadataFlagsAndVariables(t *testing.T) {
	bare(t)
	var want rt.Metadata
	var args []string
	for i, field := range rt.MetadataFields {
		*want.Field(field) = "v-" + field
		if i%2 == 0 {
			args = append(args, "--"+strings.ReplaceAll(field, "_", "-"), "v-"+field)
		}
		t.Setenv("TRACKER_"+strings.ToUpper(field), "v-"+field)
	}
	want.Tags = map[string]string{"a": "1", "b": "x=y,z", "c": ""}
	args = append(args, "--tag", "a=0", "--tag", "b=x=y,z", "--tag", "c=", "--tag", "a=1")
	s, err := parse(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, s.meta); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestWhereSamplesGo(t *testing.T) {
	tests := []struct {
		name, args, job string
		stdout          bool
		spool, output   string
	}{
		{"alone", "", "", true, "", ""},
		{"around a command", "true", "", true, "", ""},
		{"alone in a job", "", "7", true, "", ""},
		{"around a command in a job", "true", "7", false, "/state/rt", ""},
		{"a file", "-o f true", "", false, "", "f"},
		{"a file in a job", "-o f true", "7", false, "", "f"},
		{"quiet", "-q true", "7", false, "", ""},
		{"spool", "--spool d true", "7", false, "d", ""},
		{"spool and file", "--spool d -o f", "", false, "d", "f"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bare(t)
			t.Setenv("SLURM_JOB_ID", tt.job)
			t.Setenv("XDG_STATE_HOME", "/state")
			s, err := parse(t, strings.Fields(tt.args)...)
			if err != nil {
				t.Fatal(err)
			}
			if (s.stream == os.Stdout) != tt.stdout || s.spoolDir != tt.spool || s.output != tt.output {
				t.Errorf("stdout %v, spool %q, file %q", s.stream == os.Stdout, s.spoolDir, s.output)
			}
		})
	}
}

// The variables of the Rust tracker have the same effect as ours. Ours have precedence.
func TestVariablesOfTheRustTracker(t *testing.T) {
	for _, c := range []struct {
		env            []string
		output, stream string
	}{
		{[]string{"TRACKER_OUTPUT=a"}, "a", ""},
		{[]string{"TRACKER_OUTPUT=a", "RESOURCE_TRACKER_OUTPUT=b"}, "b", ""},
		{[]string{"TRACKER_QUIET=1"}, "", ""},
		{[]string{"TRACKER_QUIET=yes"}, "", ""},
		{[]string{"TRACKER_QUIET=no"}, "", os.Stdout.Name()},
		{[]string{"TRACKER_QUIET=true", "RESOURCE_TRACKER_QUIET=false"}, "", os.Stdout.Name()},
		{[]string{"TRACKER_DIALECT=live"}, "", os.Stderr.Name()},
		{[]string{"TRACKER_DIALECT=live", "SLURM_JOB_ID=7"}, "", os.Stderr.Name()},
		{[]string{"TRACKER_DIALECT=live", "TRACKER_QUIET=1"}, "", ""},
		{[]string{"TRACKER_DIALECT=spec"}, "", os.Stdout.Name()},
	} {
		t.Run(strings.Join(c.env, " "), func(t *testing.T) {
			bare(t)
			for _, v := range c.env {
				name, value, _ := strings.Cut(v, "=")
				t.Setenv(name, value)
			}
			s, err := parse(t, "true")
			stream := ""
			if s.stream != nil {
				stream = s.stream.Name()
			}
			if err != nil || s.output != c.output || stream != c.stream {
				t.Errorf("file %q, stream %q, %v", s.output, stream, err)
			}
		})
	}
	bare(t)
	for _, wrong := range []string{"TRACKER_QUIET=perhaps", "TRACKER_DIALECT=auto"} {
		name, value, _ := strings.Cut(wrong, "=")
		t.Setenv(name, value)
		if _, err := parse(t); exitStatus(err) != cli.ExitUsage || !strings.Contains(err.Error(), value) {
			t.Errorf("%s: %v", wrong, err)
		}
		t.Setenv(name, "")
	}
}

// The client of the API uses the chosen dialect. If none is chosen, the API determines the dialect.
func TestDialectOfTheAPI(t *testing.T) {
	bare(t)
	t.Setenv("SENTINEL_API_TOKEN", "t")
	for _, dialect := range []string{"", "spec", "live"} {
		t.Setenv("TRACKER_DIALECT", dialect)
		s, err := parse(t)
		if err != nil || s.uploads.dialect != dialect || s.live != (dialect == "live") {
			t.Errorf("%q: %+v, %v", dialect, s.uploads, err)
		}
	}
}

func TestStateDir(t *testing.T) {
	for _, tt := range []struct{ state, home, want string }{
		{"", "/home/a", "/home/a/.local/state/rt"},
		{"/x", "/home/a", "/x/rt"},
		{"/x", "", "/x/rt"},
		{"relative", "/home/a", "/home/a/.local/state/rt"},
		{"", "", ""},
		{"relative", "home", ""},
	} {
		t.Setenv("XDG_STATE_HOME", tt.state)
		t.Setenv("HOME", tt.home)
		if got := stateDir(); got != tt.want {
			t.Errorf("%q, %q: %s, want %s", tt.state, tt.home, got, tt.want)
		}
	}
}

// Root takes no directory that another user can change, such as one in the home of the user who called sudo.
func TestRootDoesNotFollowUsers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: gives directories to another user")
	}
	bare(t)
	for name, change := range map[string]func(home string) error{
		"the home":      func(home string) error { return os.Chown(home, 65534, 65534) },
		"its .local":    func(home string) error { return os.Chown(filepath.Join(home, ".local"), 65534, 65534) },
		"all may write": func(home string) error { return os.Chmod(home, 0o777) },
	} {
		home := t.TempDir()
		t.Setenv("HOME", home)
		t.Setenv("XDG_STATE_HOME", "")
		t.Setenv("TMPDIR", home)
		if err := os.Mkdir(filepath.Join(home, ".local"), 0o755); err != nil {
			t.Fatal(err)
		}
		if got, want := stateDir(), filepath.Join(home, ".local/state/rt"); got != want || tempDir() != home {
			t.Errorf("%s, before: %q, %q", name, got, tempDir())
		}
		if err := change(home); err != nil {
			t.Fatal(err)
		}
		isTemp := name == "its .local" // TMPDIR itself is still root's
		if got := stateDir(); got != "" || (tempDir() == home) != isTemp {
			t.Errorf("%s: the directories are %q and %q", name, got, tempDir())
		}
		t.Setenv("XDG_STATE_HOME", filepath.Join(home, ".local"))
		if got := stateDir(); got != "" {
			t.Errorf("%s, with XDG_STATE_HOME: %q", name, got)
		}
	}
}

func TestPID(t *testing.T) {
	bare(t)
	file := writeConfig(t, "[job]\npid = 12\n")
	for _, tt := range []struct {
		variable, args string
		want           int
	}{
		{"", "", 0},
		{"", "-c " + file, 12},
		{"9", "-c " + file, 9},
		{"9", "-p 7 -c " + file, 7},
		{"9", "-c " + file + " true", 0},
	} {
		t.Setenv("RESOURCE_TRACKER_PID", tt.variable)
		if s, err := parse(t, strings.Fields(tt.args)...); err != nil || s.pid != tt.want {
			t.Errorf("%q and %q: pid %d, %v; want %d", tt.variable, tt.args, s.pid, err, tt.want)
		}
	}
	t.Setenv("RESOURCE_TRACKER_PID", "")
	for _, args := range []string{"-p x", "-p 0", "-p -3", "-p 2147483648", "-p 3 true"} {
		if _, err := parse(t, strings.Fields(args)...); exitStatus(err) != cli.ExitUsage {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// Each flag of ours has its variable, which the flag wins over; the value of an
// empty one is the default's.
func TestVariables(t *testing.T) {
	type check func(s *settings) any
	for _, tt := range []struct {
		variable, value, flag string
		what                  check
		want, wantOfFlag, def any
	}{
		{"INTERVAL", "7", "--interval=9", func(s *settings) any { return s.interval }, 7 * time.Second, 9 * time.Second, time.Second},
		{"FORMAT", "csv", "--format=json", func(s *settings) any { return s.csv }, true, false, false},
		{"PID", "7", "--pid=9", func(s *settings) any { return s.pid }, 7, 9, 0},
		{"OUTPUT", "a", "--output=b", func(s *settings) any { return s.output }, "a", "b", ""},
		{"QUIET", "true", "--quiet=false", func(s *settings) any { return s.stream == os.Stdout }, false, true, true},
		{"SPOOL", "a", "--spool=b", func(s *settings) any { return s.spoolDir }, "a", "b", ""},
		{"SCOPE", "job", "--scope=node", func(s *settings) any { return s.scope }, rt.ScopeJob, rt.ScopeNode, rt.ScopeNode},
		{"GPU", "off", "--gpu=auto", func(s *settings) any { return s.gpu }, false, true, true},
	} {
		t.Run(tt.variable, func(t *testing.T) {
			bare(t)
			t.Setenv("SLURM_JOB_ID", "1")
			for _, step := range []struct {
				value string
				args  []string
				want  any
			}{{tt.value, nil, tt.want}, {tt.value, []string{tt.flag}, tt.wantOfFlag}, {"", nil, tt.def}} {
				t.Setenv("RESOURCE_TRACKER_"+tt.variable, step.value)
				s, err := parse(t, step.args...)
				if err != nil || tt.what(&s) != step.want {
					t.Errorf("%q and %q: %v, %v; want %v", step.value, step.args, tt.what(&s), err, step.want)
				}
			}
		})
	}
	for _, wrong := range []string{"INTERVAL=0", "INTERVAL=-1", "INTERVAL=soon", "INTERVAL=1e9", "FORMAT=xml", "PID=none", "QUIET=perhaps", "SCOPE=all", "GPU=on"} {
		t.Run(wrong, func(t *testing.T) {
			bare(t)
			name, value, _ := strings.Cut(wrong, "=")
			t.Setenv("RESOURCE_TRACKER_"+name, value)
			if _, err := parse(t); exitStatus(err) != cli.ExitUsage || !strings.Contains(err.Error(), value) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A value of the file that cannot be is passed over, the others hold.
func TestConfigValues(t *testing.T) {
	for text, want := range map[string]config{
		"[job]\nname = \"a\"\npid = 3\n[tracker]\ninterval_secs = 4\n": {jobName: "a", pid: 3, interval: 4},
		"[tracker]\ninterval_secs = 0\n[job]\npid = 3\n":               {pid: 3, interval: 1},
		"[tracker]\ninterval_secs = -5\n":                              {interval: 1},
		"[tracker]\ninterval_secs = \"5\"\n":                           {interval: 1},
		"[tracker]\ninterval_secs = 5.0\n":                             {interval: 1},
		"[tracker]\ninterval_secs = 1000000000\n":                      {interval: 1},
		"[job]\npid = 0\nname = 5\n[else]\nx = 1\n":                    {interval: 1},
		"[job]\npid = 4294967296\n":                                    {interval: 1},
		"job = 5\n[tracker]\ninterval_secs = 2\n":                      {interval: 2},
		"[job\nname = \"a\"\n":                                         {interval: 1},
	} {
		if got := readConfig(writeConfig(t, text)); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func FuzzConfig(f *testing.F) {
	for _, seed := range []string{"", "[job]\nname = \"a\"\npid = 3\n[tracker]\ninterval_secs = 4\n", "job = 3", "[tracker]\ninterval_secs = -1\n", "[job", "[[job]]\nname = 1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := config{interval: 1}
		c.parse([]byte(text))
		if c.interval < 1 || c.interval > maxInterval || c.pid < 0 {
			t.Errorf("%+v", c)
		}
	})
}

func TestConfigIsPassedOverWhereItIsNoFile(t *testing.T) {
	for _, path := range []string{"", "/", "/dev/zero", filepath.Join(t.TempDir(), "missing")} {
		if got := readConfig(path); got != (config{interval: 1}) {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

// The last word "--" wants a command, unless it is a flag's value.
func TestDashesWithoutCommand(t *testing.T) {
	bare(t)
	for _, args := range []string{"--", "-q --", "-i 3 --", "--job-name=-- --"} {
		if _, err := parse(t, strings.Fields(args)...); exitStatus(err) != cli.ExitUsage {
			t.Errorf("%q: %v", args, err)
		}
	}
	for args, command := range map[string]string{"-n --": "", "-- --": "--", "-- a --": "a --", "a --": "a --"} {
		s, err := parse(t, strings.Fields(args)...)
		if err != nil || strings.Join(s.command, " ") != command {
			t.Errorf("%q: the command is %q, %v", args, s.command, err)
		}
	}
}

// Section 9.2.2: an upload every 60 seconds where nothing else is said; section 9.1:
// none without a token.
func TestUploadInterval(t *testing.T) {
	for text, want := range map[string]time.Duration{"": time.Minute, "5": 5 * time.Second} {
		s, err := newUploads(func(name string) string {
			return map[string]string{"SENTINEL_API_TOKEN": "t", "TRACKER_UPLOAD_INTERVAL": text}[name]
		}, "")
		if err != nil || s.every != want {
			t.Errorf("of %q: %+v, %v", text, s, err)
		}
	}
	if s, err := newUploads(func(string) string { return "" }, "live"); s != nil || err != nil {
		t.Errorf("without a token: %+v, %v", s, err)
	}
}
