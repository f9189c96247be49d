package rt_test

import (
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
