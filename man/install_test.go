package man_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestInstall: what is installed below another prefix names the paths that it is
// installed at, and none of the defaults'.
func TestInstall(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want map[string]string // a text, and the file that has it
	}{
		{"usr", []string{"PREFIX=/usr"}, map[string]string{
			"Prolog=/usr/libexec/rt/prolog\n":     "/usr/share/rt/slurm.conf.snippet",
			" /usr/bin/rt-job check --filter ":    "/usr/share/rt/cli_filter.lua",
			"timeout -k 1 10 /usr/bin/rt-job ":    "/usr/libexec/rt/rt-mail",
			"ExecStart=/usr/bin/rt-spool drain\n": "/usr/share/doc/rt/systemd/rt-spool-drain.service",
			" /usr/bin/rt-spool drain ":           "/usr/share/doc/rt/cron/rt-spool",
			".I /usr/share/doc/rt/rt.toml\n":      "/usr/share/man/man5/rt.toml.5",
			"    make install PREFIX=/usr\n":      "/usr/share/doc/rt/slurm/INSTALL.md",
			"Epilog=/usr/libexec/rt/epilog\n":     "/usr/share/man/man8/rt-epilog.8",
			"\"openapi\": ":                       "/usr/share/doc/rt/openapi.json",
			"](slurm/INSTALL.md)":                 "/usr/share/doc/rt/README.md",
			"](../slurm/INSTALL.md#":              "/usr/share/doc/rt/docs/README.md",
			"complete -o filenames -F _rt_spool":  "/usr/share/bash-completion/completions/rt-spool",
			"#compdef rt-site\n":                  "/usr/share/zsh/site-functions/_rt-site",
			"complete -c resource-tracker ":       "/usr/share/fish/vendor_completions.d/resource-tracker.fish",
		}},
		{"below the default", []string{"PREFIX=/usr/local/rt", "LIBEXECDIR=/opt/rt/lib"}, map[string]string{
			"\n/opt/rt/lib/rt-prolog \"$@\"\n":            "/opt/rt/lib/prolog",
			"Prolog=/opt/rt/lib/prolog\n":                 "/usr/local/rt/share/rt/slurm.conf.snippet",
			"ExecStart=/usr/local/rt/bin/rt-site serve\n": "/usr/local/rt/share/doc/rt/systemd/rt-site.service",
		}},
	}
	bin := build(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dest := t.TempDir()
			// The programs are built already: -o keeps make from doing it again.
			args := append([]string{"-C", "..", "-o", "build", "install", "BIN=" + bin, "DESTDIR=" + dest}, tt.args...)
			if out, err := exec.Command("make", args...).CombinedOutput(); err != nil {
				t.Fatalf("make %s: %v\n%s", strings.Join(args, " "), err, out)
			}
			for text, file := range tt.want {
				if got := read(t, filepath.Join(dest, file)); !strings.Contains(got, text) {
					t.Errorf("%s does not have %q", file, text)
				}
			}
			checkPaths(t, dest, tt.name == "usr")
		})
	}
}

var installedPath = regexp.MustCompile(`/(?:usr|opt)/[a-z/]*(?:bin|libexec/rt|lib|doc/rt)/(?:rt|prolog|epilog|(?:site|spool)/DESIGN)[a-zA-Z.-]*[a-zA-Z]`)

var relativeLink = regexp.MustCompile(`\]\(([^):#]+)(?:#[^)]*)?\)`)

// checkPaths: each path of ours in a text of an installation exists, and each relative link of a document too. No
// path is below /usr/local where nothing was put.
func checkPaths(t *testing.T, dest string, other bool) {
	t.Helper()
	err := filepath.WalkDir(dest, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Type() != 0 || strings.Contains(path, "/bin/") || strings.Contains(path, "/libexec/") || strings.HasPrefix(path, dest+"/opt") {
			return err
		}
		text := strings.ReplaceAll(read(t, path), `\-`, "-")
		if other && strings.Contains(text, "/usr/local") {
			t.Errorf("%s names /usr/local", path)
		}
		for _, name := range installedPath.FindAllString(text, -1) {
			if _, err := os.Stat(filepath.Join(dest, name)); err != nil {
				t.Errorf("%s names %s: %v", path, name, err)
			}
		}
		if strings.HasSuffix(path, ".md") {
			checkLinks(t, path, text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkLinks: the files that a document links to are installed.
func checkLinks(t *testing.T, path, text string) {
	t.Helper()
	for _, link := range relativeLink.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), link[1])); err != nil {
			t.Errorf("%s links to %s: %v", path, link[1], err)
		}
	}
}
