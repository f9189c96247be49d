// Package man_test holds the manual pages and the shell completions against what
// the programs say of themselves.
package man_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The programs and their pages. The flag package of the standard library does not
// list -h and -help, which it takes all the same.
var programs = []struct {
	name, page string
	std        bool
}{
	{"resource-tracker", "resource-tracker.1", false},
	{"rt-job", "rt-job.1", false},
	{"rt-spool", "rt-spool.8", false},
	{"rt-prolog", "rt-prolog.8", true},
	{"rt-epilog", "rt-epilog.8", true},
	{"rt-tracker", "rt-tracker.8", true},
	{"rt-site", "rt-site.8", true},
	{"rt-lake", "rt-lake.8", true},
}

func TestPages(t *testing.T) {
	bin := build(t)
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			page := readPage(t, p.page)
			help := helpOf(t, filepath.Join(bin, p.name))
			want := flagsOfHelp(help)
			if p.std {
				want = append(want, "h", "help")
			}
			compare(t, "flags", want, flagsOfPage(page.section("OPTIONS")))
			if want := variablesOfHelp(help); len(want) > 0 {
				compare(t, "environment variables of flags", want, flagVariables(page.section("ENVIRONMENT")))
			}
			if want := statusesOfHelp(help); len(want) > 0 {
				compare(t, "exit statuses", want, statusesOfPage(page.section("EXIT STATUS")))
			}
			for _, name := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "FILES", "EXIT STATUS", "EXAMPLES", "SEE ALSO"} {
				if page.section(name) == "" {
					t.Errorf("%s has no section %s", p.page, name)
				}
			}
		})
	}
}

// TestVerbs: each verb of rt-spool has one page, which rt-spool(8) lists, with the verb's flags.
func TestVerbs(t *testing.T) {
	program := filepath.Join(build(t), "rt-spool")
	var listed []string
	for _, m := range listedPage.FindAllStringSubmatch(readPage(t, "rt-spool.8").section("VERBS"), -1) {
		listed = append(listed, m[1]+"."+m[2])
	}
	var pages []string
	for _, verb := range verbsOfHelp(helpOf(t, program)) {
		found, err := filepath.Glob("rt-spool-" + verb + ".[18]")
		if err != nil || len(found) != 1 {
			t.Errorf("rt-spool %s has the pages %q, want one in section 1 or 8", verb, found)
			continue
		}
		pages = append(pages, found[0])
		page := readPage(t, found[0])
		options := map[string]string{verb: page.section("OPTIONS")}
		below := verbsOfHelp(helpOf(t, program, verb))
		if len(below) > 0 {
			options = map[string]string{}
			for v, text := range page.subsections("OPTIONS") {
				options[verb+" "+v] = text
			}
			compare(t, "verbs of rt-spool "+verb, below, slices.Collect(maps.Keys(page.subsections("OPTIONS"))))
		}
		for words, text := range options {
			want := without(flagsOfHelp(helpOf(t, program, strings.Fields(words)...)), "h", "help") // in rt-spool(8), for all verbs
			compare(t, "flags of rt-spool "+words, want, flagsOfPage(text))
		}
		for _, name := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "SEE ALSO"} {
			if page.section(name) == "" {
				t.Errorf("%s has no section %s", found[0], name)
			}
		}
	}
	compare(t, "pages of verbs", pages, listed)
}

// verbsOf are the verbs of a program; one that has verbs itself stands with each of them.
func verbsOf(t *testing.T, program string) []string {
	t.Helper()
	var verbs []string
	for _, verb := range verbsOfHelp(helpOf(t, program)) {
		below := verbsOfHelp(helpOf(t, program, verb))
		for _, v := range below {
			verbs = append(verbs, verb+" "+v)
		}
		if len(below) == 0 {
			verbs = append(verbs, verb)
		}
	}
	return verbs
}

var built string // what build has made

func TestMain(m *testing.M) {
	status := m.Run()
	if built != "" {
		_ = os.RemoveAll(built) // of no interest to the tests
	}
	os.Exit(status)
}

// build makes the programs once and returns their directory.  With the flags of make build
// their packages are in the build cache.
func build(t *testing.T) string {
	t.Helper()
	if built != "" {
		return built
	}
	dir, err := os.MkdirTemp("", "rt-man")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("make", "-C", "..", "build", "BIN="+dir).CombinedOutput()
	if err != nil {
		_ = os.RemoveAll(dir) // the build's error is the one to show
		t.Fatalf("make build: %v\n%s", err, out)
	}
	out, err = exec.Command("go", "run", "-C", "../tools", "./completions", dir, filepath.Join(dir, "completions")).CombinedOutput()
	if err != nil {
		_ = os.RemoveAll(dir) // the error of the tool is the one to show
		t.Fatalf("completions: %v\n%s", err, out)
	}
	built = dir
	return built
}

func helpOf(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, append(args, "--help")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s --help: %v\n%s", program, err, out)
	}
	return string(out)
}

var (
	// -p, --path.procfs; the flag package shows -config.
	flagPattern    = regexp.MustCompile(`--?[a-z][a-z.-]*`)
	helpFlags      = regexp.MustCompile(`^\s+((?:--?[a-z][a-z.-]*( [^\s,]+)?(, )?)+)`)
	helpVariable   = regexp.MustCompile(`\[\$([A-Z_]+)\]`)
	helpStatus     = regexp.MustCompile(`^   ([0-9]+(?:\+n)?)  `)
	helpVerb       = regexp.MustCompile(`^   ([a-z]+) `)
	listedPage     = regexp.MustCompile(`(?m)^(rt-spool-[a-z]+)\(([18])\)\|`)
	pageStatus     = regexp.MustCompile(`(?m)^\.TP\n\.B (\S+)$`)
	pageVariable   = regexp.MustCompile(`(?m)^\.B ((?:RESOURCE_)?TRACKER_[A-Z_]+)$`)
	pageTag        = regexp.MustCompile(`(?m)^\.T[PQ]\n(\.B.*)$`)
	sectionPattern = regexp.MustCompile(`(?m)^\.SH "?([^"\n]+)"?\n`)
)

func flagsOfHelp(help string) []string {
	var flags []string
	for line := range strings.Lines(help) {
		if m := helpFlags.FindStringSubmatch(line); m != nil {
			flags = append(flags, flagPattern.FindAllString(m[1], -1)...)
		}
	}
	return bare(flags)
}

func variablesOfHelp(help string) (names []string) {
	for _, m := range helpVariable.FindAllStringSubmatch(help, -1) {
		names = append(names, m[1])
	}
	return names
}

func statusesOfHelp(help string) (statuses []string) {
	_, table, _ := strings.Cut(help, "EXIT STATUS:\n")
	for line := range strings.Lines(table) {
		if m := helpStatus.FindStringSubmatch(line); m != nil {
			statuses = append(statuses, m[1])
		}
	}
	return statuses
}

func verbsOfHelp(help string) (verbs []string) {
	_, table, found := strings.Cut(help, "\nCOMMANDS:\n")
	if !found {
		return nil
	}
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		if m := helpVerb.FindStringSubmatch(line); m != nil {
			verbs = append(verbs, m[1])
		}
	}
	return verbs
}

// page is the source of a manual page, with plain hyphens.
type page string

func readPage(t *testing.T, name string) page {
	t.Helper()
	return plain(read(t, name))
}

func plain(source string) page { return page(strings.ReplaceAll(source, `\-`, "-")) }

// configPage returns rt.toml(5), which is made from the example file.
func configPage(t *testing.T) page {
	t.Helper()
	out, err := exec.Command("awk", "-f", "rt.toml.5.awk", "../contrib/rt.toml").Output()
	if err != nil {
		t.Fatalf("rt.toml.5.awk: %v", err)
	}
	return plain(string(out))
}

// section returns what stands below a heading, empty where it does not stand.
func (p page) section(title string) string {
	all := sectionPattern.FindAllStringSubmatchIndex(string(p), -1)
	for i, at := range all {
		if string(p[at[2]:at[3]]) != title {
			continue
		}
		end := len(p)
		if i+1 < len(all) {
			end = all[i+1][0]
		}
		return string(p[at[1]:end])
	}
	return ""
}

// subsections returns the parts of a section by their headings.
func (p page) subsections(title string) map[string]string {
	parts := map[string]string{}
	for i, part := range strings.Split("\n"+p.section(title), "\n.SS ") {
		if heading, text, _ := strings.Cut(part, "\n"); i > 0 {
			parts[heading] = text
		}
	}
	return parts
}

// flagsOfPage returns the flags that are the tags of a list.
func flagsOfPage(section string) []string {
	var flags []string
	for _, m := range pageTag.FindAllStringSubmatch(section, -1) {
		flags = append(flags, flagPattern.FindAllString(m[1], -1)...)
	}
	return bare(flags)
}

func flagVariables(section string) (names []string) {
	for _, m := range pageVariable.FindAllStringSubmatch(section, -1) {
		names = append(names, m[1])
	}
	return names
}

func statusesOfPage(section string) (statuses []string) {
	for _, m := range pageStatus.FindAllStringSubmatch(section, -1) {
		statuses = append(statuses, m[1])
	}
	return statuses
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// bare takes the hyphens off: the flag package takes one or two.
func bare(flags []string) []string {
	out := make([]string, len(flags))
	for i, f := range flags {
		out[i] = strings.TrimLeft(f, "-")
	}
	return out
}

func long(flags []string) []string {
	return slices.DeleteFunc(bare(flags), func(f string) bool { return len(f) == 1 })
}

func without(flags []string, names ...string) []string {
	return slices.DeleteFunc(flags, func(f string) bool { return slices.Contains(names, f) })
}

func compare(t *testing.T, what string, program, documented []string) {
	t.Helper()
	if len(program) == 0 {
		t.Errorf("%s: the program shows none", what)
	}
	for _, list := range []*[]string{&program, &documented} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if diff := cmp.Diff(program, documented); diff != "" {
		t.Errorf("%s (-program +documented):\n%s", what, diff)
	}
}
