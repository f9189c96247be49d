package man_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var usageVerb = regexp.MustCompile(`(?m)^(?:usage:)? +rt-(?:site|lake) \[--config FILE\] ([a-z]+)`)

// TestCompletions: bash offers each long flag of a verb and nothing else, and the scripts of zsh
// and fish have them too.
func TestCompletions(t *testing.T) {
	if testing.Short() {
		t.Skip("in make check: the completions of three shells")
	}
	bin := build(t)
	for _, name := range []string{"resource-tracker", "rt-job", "rt-spool", "rt-site", "rt-lake"} {
		t.Run(name, func(t *testing.T) {
			program, dir := filepath.Join(bin, name), filepath.Join(bin, "completions")
			zsh, fish := read(t, filepath.Join(dir, "zsh", "_"+name)), read(t, filepath.Join(dir, "fish", name+".fish"))
			for words, flags := range flagsOfVerbs(t, program) {
				flags = long(flags)
				compare(t, "completion in bash of "+name+" "+words, flags, long(offered(t, dir, name, words, "--")))
				for _, f := range flags {
					if !strings.Contains(zsh, "'--"+f+"[") && !strings.Contains(zsh, "--"+f+"=[") && !strings.Contains(zsh, ")--"+f+"[") {
						t.Errorf("zsh does not know the flag --%s of %s", f, name)
					}
					if !strings.Contains(fish, " -l "+f+" ") {
						t.Errorf("fish does not know the flag --%s of %s", f, name)
					}
				}
			}
		})
	}
}

// flagsOfVerbs returns the flags of a program and of its verbs by the words of the verb, "" for
// the program.
func flagsOfVerbs(t *testing.T, program string) map[string][]string {
	t.Helper()
	help := helpOf(t, program)
	flags := map[string][]string{"": flagsOfHelp(help)}
	for _, verb := range verbsOf(t, program) {
		flags[verb] = flagsOfHelp(helpOf(t, program, strings.Fields(verb)...))
	}
	usage := usageVerb.FindAllStringSubmatch(help, -1)
	if len(usage) == 0 {
		return flags
	}
	// rt-site and rt-lake have one list of flags; the usage says to which verb each belongs.
	head, _, _ := strings.Cut(help, "\n\n")
	flags[""] = append(slices.DeleteFunc(flags[""], func(f string) bool {
		return f != "config" && strings.Contains(head, "--"+f)
	}), "help")
	for _, m := range usage {
		line := head[strings.Index(head, m[0])+len(m[0]):]
		line, _, _ = strings.Cut(line, "\n")
		flags[m[1]] = bare(flagPattern.FindAllString(line, -1))
	}
	return flags
}

// offered returns what bash offers for the last word after a program and its verb.
func offered(t *testing.T, dir, name, words, last string) []string {
	t.Helper()
	const script = `source "$1"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); "_${1//-/_}"; printf '%s\n' "${COMPREPLY[@]}"`
	args := append([]string{"-uc", script, "bash", filepath.Join(dir, "bash", name), name}, strings.Fields(words)...)
	out, err := exec.Command("bash", append(args, last)...).Output()
	if err != nil {
		t.Fatalf("bash: %v", err)
	}
	return strings.Fields(string(out))
}

// TestCompletionValues: values, verbs and files are offered where they belong.
func TestCompletionValues(t *testing.T) {
	dir := filepath.Join(build(t), "completions")
	tests := []struct{ name, words, last, want string }{
		{"rt-spool", "", "dr", "drain"},
		{"rt-job", "", "w", "watch web"},
		{"rt-job", "compare", "man_te", ""},
		{"rt-spool", "sonar", "s", "sysinfo slurm"},
		{"rt-spool", "report --format", "", "text json markdown oneline"},
		{"rt-spool", "export --format", "so", "sonar-csv sonar-json"},
		{"rt-spool", "export --format =", "so", "sonar-csv sonar-json"},
		{"rt-spool", "import -f", "re", "record"},
		{"rt-spool", "import", "man_te", "man_test.go"},
		{"rt-spool", "drain", "man_te", ""},
		{"resource-tracker", "--dialect", "", "spec live"},
		{"resource-tracker", "-f", "", "json csv"},
		{"rt-site", "", "v", "verify"},
		{"rt-site", "forget", "--p", "--pseudonym"},
	}
	for _, tt := range tests {
		if got := strings.Join(offered(t, dir, tt.name, tt.words, tt.last), " "); got != tt.want {
			t.Errorf("%s %s %s: bash offers %q, want %q", tt.name, tt.words, tt.last, got, tt.want)
		}
	}
}
