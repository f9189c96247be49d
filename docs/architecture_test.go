// Package docs_test compares the documents with the code.
package docs_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/resource-tracker/rt"

// A line of the map of wings.
var mapLine = regexp.MustCompile(`(?m)^([a-z]+) {2,}\S`)

var depguardEntry = regexp.MustCompile(`(?m)^([a-z]+):$`)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestWings: each directory with packages is a wing of architecture.md and of .depguard.yml, in the same order, and
// no import climbs.
func TestWings(t *testing.T) {
	wings := wingsOf(t)
	isUsed := map[string]bool{}
	for dir, imports := range packages(t) {
		from := wingOf(dir)
		if slices.Contains([]string{"docs", "e2e", "man"}, from) {
			continue
		}
		if !slices.Contains(wings, from) {
			t.Errorf("architecture.md lacks the wing %s", from)
			continue
		}
		isUsed[from] = true
		for _, path := range imports {
			isOurs := path == module || strings.HasPrefix(path, module+"/")
			if isOurs && slices.Index(wings, wingOf(path)) < slices.Index(wings, from) {
				t.Errorf("%s imports %s, which is in a wing above %s", dir, path, from)
			}
		}
	}
	for _, wing := range wings {
		if !isUsed[wing] {
			t.Errorf("architecture.md has the wing %s, which has no package", wing)
		}
	}
}

// packages returns what each package of the module imports outside its tests, with any system and tag.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		isHidden := path != ".." && strings.HasPrefix(d.Name(), ".")
		isOther := isHidden || slices.Contains([]string{"build", "testdata", "tools"}, d.Name())
		if d.IsDir() && isOther {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := strings.TrimSuffix(module+strings.TrimPrefix(filepath.Dir(path), ".."), "/")
		for _, spec := range file.Imports {
			found[dir] = append(found[dir], strings.Trim(spec.Path.Value, `"`))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// wingsOf returns the wings of the map, which .depguard.yml also names.
func wingsOf(t *testing.T) []string {
	t.Helper()
	var wings, rules []string
	for _, line := range mapLine.FindAllStringSubmatch(read(t, "architecture.md"), -1) {
		wings = append(wings, line[1])
	}
	for _, line := range depguardEntry.FindAllStringSubmatch(read(t, "../.depguard.yml"), -1) {
		if line[1] != "tests" {
			rules = append(rules, line[1])
		}
	}
	if !slices.Equal(wings, rules) {
		t.Fatalf("architecture.md has the wings %q, .depguard.yml has %q", wings, rules)
	}
	return wings
}

// wingOf returns the first element of an import path below the module's, "rt" for the module's package.
func wingOf(path string) string {
	if path == module {
		return "rt"
	}
	wing, _, _ := strings.Cut(strings.TrimPrefix(path, module+"/"), "/")
	return wing
}

var (
	promise  = regexp.MustCompile(`(?m)^- .*(?:\n  .*)*`) // an item of a list
	testRef  = regexp.MustCompile("`([a-z0-9/-]+)\\.(Test[A-Za-z0-9_]+)`")
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
)

// TestGuarantees: guarantees.md names only tests that exist, and each promise has one.
func TestGuarantees(t *testing.T) {
	promises := promise.FindAllString(read(t, "guarantees.md"), -1)
	if len(promises) < 50 {
		t.Fatalf("guarantees.md has %d promises", len(promises))
	}
	tests := map[string][]string{} // by directory
	for _, promise := range promises {
		refs := testRef.FindAllStringSubmatch(promise, -1)
		if len(refs) == 0 {
			t.Errorf("guarantees.md has no test of: %s", promise)
		}
		for _, ref := range refs {
			dir, name := ref[1], ref[2]
			if tests[dir] == nil {
				tests[dir] = testsIn(t, "../"+dir)
			}
			if !slices.Contains(tests[dir], name) {
				t.Errorf("guarantees.md names %s, which %s does not have", name, dir)
			}
		}
	}
}

// testsIn returns the names of the tests in a directory.
func testsIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
		return nil
	}
	names := []string{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		for _, m := range testFunc.FindAllStringSubmatch(read(t, dir+"/"+e.Name()), -1) {
			names = append(names, m[1])
		}
	}
	return names
}
