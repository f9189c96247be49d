//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestManualPages holds the pages and the shell completions against the flags
// that the programs themselves show, in both directions.
func TestManualPages(t *testing.T) {
	s := newSite(t, workDir(t))
	verbs := []string{"ls", "report", "export", "drain", "serve", "verify"}
	for program, page := range map[string]string{
		"resource-tracker": "resource-tracker.1", "rt-spool": "rt-spool.8",
		"rt-prolog": "rt-prolog.8", "rt-epilog": "rt-epilog.8", "rt-tracker": "rt-tracker.8",
	} {
		t.Run(program, func(t *testing.T) {
			help := helpOf(t, s.path("bin", program))
			if program == "rt-spool" {
				for _, v := range verbs {
					if !strings.Contains(help, "\n   "+v+" ") {
						t.Errorf("no verb %s in its help", v)
					}
					help += helpOf(t, s.path("bin", program), v)
				}
			}
			flags := flagsOfHelp(help)
			if len(flags) < 2 {
				t.Fatalf("only the flags %q in the help:\n%s", flags, help)
			}
			compare(t, "man/"+page, flags, flagsOfPage(read(t, filepath.Join("../man", page))))
			if completion := filepath.Join("../contrib/completions", program); exists(completion) {
				compare(t, completion, flags, flagsOfHelp(read(t, completion)))
			} else if program == "rt-spool" || program == "resource-tracker" {
				t.Errorf("%s is missing", completion)
			}
		})
	}
}

func helpOf(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, append(args, "--help")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s --help: %v\n%s", program, err, out)
	}
	return string(out)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	longFlag = regexp.MustCompile(`--[a-z][a-z.-]*[a-z]`)
	stdFlag  = regexp.MustCompile(`(?m)^  -([a-z]+)`) // as the flag package shows it
	pageFlag = regexp.MustCompile(`(?m)^\.BR .*$`)
)

func flagsOfHelp(text string) []string {
	flags := longFlag.FindAllString(text, -1)
	for _, m := range stdFlag.FindAllStringSubmatch(text, -1) {
		flags = append(flags, "--"+m[1])
	}
	return unique(flags)
}

// flagsOfPage takes the terms of a page's lists.
func flagsOfPage(text string) []string {
	_, options, _ := strings.Cut(text, ".SH OPTIONS")
	var flags []string
	for _, line := range pageFlag.FindAllString(options, -1) {
		flags = append(flags, longFlag.FindAllString(strings.ReplaceAll(line, `\-`, "-"), -1)...)
	}
	return unique(flags)
}

func unique(flags []string) []string {
	slices.Sort(flags)
	return slices.Compact(flags)
}

func compare(t *testing.T, file string, program, documented []string) {
	t.Helper()
	for _, f := range program {
		if !slices.Contains(documented, f) {
			t.Errorf("%s does not have %s", file, f)
		}
	}
	for _, f := range documented {
		if !slices.Contains(program, f) {
			t.Errorf("%s has %s, which the program does not know", file, f)
		}
	}
}
