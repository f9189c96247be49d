package rt_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The words that make lint refuses in comments and documents do not appear in what the
// programs print either.
func TestMessagesUseTheWordsOfTheField(t *testing.T) {
	words := refusedWords(t)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return ofTheModule(path, d.Name())
		case !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			if word := words.FindString(text); word != "" {
				t.Errorf("%s: the message says %q: see .vale/rt/Words.yml", fset.Position(lit.Pos()), word)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// refusedWords reads the patterns of the prose check's own list.
func refusedWords(t *testing.T) *regexp.Regexp {
	t.Helper()
	list, err := os.ReadFile(".vale/rt/Words.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, swaps, _ := strings.Cut(string(list), "\nswap:\n")
	var patterns []string
	for line := range strings.Lines(swaps) {
		pattern, _, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if ok {
			patterns = append(patterns, pattern)
		}
	}
	if len(patterns) < 10 {
		t.Fatalf("%d words in .vale/rt/Words.yml", len(patterns))
	}
	words := regexp.MustCompile(`(?i)\b(?:` + strings.Join(patterns, "|") + `)\b`)
	if !words.MatchString("The kernel tells it.") || words.MatchString("The kernel reports it.") {
		t.Fatal("the list does not find what it should")
	}
	return words
}

// specified are the groups of tests that the specification names, and how many
// each has: T-CFG-01 to T-CFG-06 and so on.
var specified = map[string]int{
	"CFG": 6, "CPU": 6, "MEM": 4, "NET": 3, "DSK": 3, "GPU": 5, "OUT": 4, "CSV": 6,
	"CLD": 2, "STR": 4, "EOR": 4, "S3": 6, "COMPAT": 1,
}

// Each test of the specification is one function with its name, in any package, and no other function has such a
// name.
func TestEveryTestOfTheSpecificationIsThereOnce(t *testing.T) {
	want := map[string]bool{}
	for group, n := range specified {
		for i := 1; i <= n; i++ {
			want[fmt.Sprintf("TestT_%s_%02d", group, i)] = true
		}
	}
	if len(want) != 54 {
		t.Fatalf("%d names, the specification has 54", len(want))
	}
	found := testsOfTheModule(t)
	for name := range want {
		switch places := found[name]; len(places) {
		case 0:
			t.Errorf("%s is missing", name)
		case 1:
		default:
			t.Errorf("%s is there %d times: %s", name, len(places), strings.Join(places, ", "))
		}
	}
	for name, places := range found {
		if !want[name] {
			t.Errorf("%s (%s) has a name that is kept for the tests of the specification", name, places[0])
		}
	}
}

// testsOfTheModule finds the functions TestT_... and where each of them stands.
func testsOfTheModule(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return ofTheModule(path, d.Name())
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "TestT_") {
				found[f.Name.Name] = append(found[f.Name.Name], fset.Position(f.Pos()).String())
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// ofTheModule skips the directories that the go command leaves out of ./... too.
func ofTheModule(path, name string) error {
	if path == "." {
		return nil
	}
	modules, err := filepath.Glob(filepath.Join(path, "go.mod"))
	if err != nil {
		return err
	}
	if len(modules) > 0 || name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return fs.SkipDir
	}
	return nil
}
