// Package docs_test compares the documents with the code.
package docs_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/resource-tracker/rt"

// entry is a row of the table of packages.
type entry struct {
	floor    string
	siblings []string // packages of its floor that it may import
}

var (
	packageRow = regexp.MustCompile("(?m)^\\| (\\d) \\| `([^`]+)` \\| [^|]+ \\| ?(.*?) ?\\|$")
	quoted     = regexp.MustCompile("`([^`]+)`")
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPackages: architecture.md lists each package, and each import obeys the floors.
func TestPackages(t *testing.T) {
	table := map[string]entry{}
	for _, row := range packageRow.FindAllStringSubmatch(read(t, "architecture.md"), -1) {
		e := entry{floor: row[1]}
		for _, m := range quoted.FindAllStringSubmatch(row[3], -1) {
			e.siblings = append(e.siblings, m[1])
		}
		if _, isThere := table[row[2]]; isThere {
			t.Errorf("architecture.md has %s twice", row[2])
		}
		table[row[2]] = e
	}
	list, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{or (len .GoFiles) (len .CgoFiles)}} {{join .Imports \" \"}}", module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		name := short(fields[0])
		if isOutside := name == "e2e" || strings.HasPrefix(name, "e2e/"); isOutside || fields[1] == "0" {
			continue
		}
		seen[name] = true
		if _, isThere := table[name]; !isThere {
			t.Errorf("architecture.md lacks the package %s", name)
			continue
		}
		for _, path := range fields[2:] {
			imported, isOurs := strings.CutPrefix(path, module)
			if isOurs {
				checkImport(t, table, name, short(module+imported))
			}
		}
	}
	for name := range table {
		if !seen[name] {
			t.Errorf("architecture.md has %s, which is not a package", name)
		}
	}
}

func checkImport(t *testing.T, table map[string]entry, name, imported string) {
	t.Helper()
	from, to := table[name], table[imported]
	isBelow := to.floor != "" && to.floor < from.floor
	isParent := strings.HasPrefix(name, imported+"/")
	if !isBelow && !isParent && !slices.Contains(from.siblings, imported) {
		t.Errorf("%s (floor %s) imports %s (floor %s)", name, from.floor, imported, to.floor)
	}
}

// short returns an import path below the module's, "rt" for the module's package.
func short(path string) string {
	if path == module {
		return "rt"
	}
	return strings.TrimPrefix(path, module+"/")
}

var (
	testRef  = regexp.MustCompile("`(Test[A-Za-z0-9_]+)` in `([a-z0-9/-]+)`")
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
)

// TestGuarantees: guarantees.md names only tests that exist, and each promise has one.
func TestGuarantees(t *testing.T) {
	text := read(t, "guarantees.md")
	refs := testRef.FindAllStringSubmatch(text, -1)
	if len(refs) < 30 {
		t.Fatalf("guarantees.md names %d tests", len(refs))
	}
	tests := map[string][]string{} // by directory
	for _, ref := range refs {
		dir := ref[2]
		if tests[dir] == nil {
			tests[dir] = testsIn(t, "../"+dir)
		}
		if !slices.Contains(tests[dir], ref[1]) {
			t.Errorf("guarantees.md names %s, which %s does not have", ref[1], dir)
		}
	}
	for line := range strings.Lines(text) {
		isPromise := strings.Count(line, "|") == 3 // the table of delivery states has more columns
		isRow := isPromise && strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| promise")
		if isRow && !testRef.MatchString(line) {
			t.Errorf("guarantees.md has no test of: %s", line)
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
