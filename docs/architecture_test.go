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

// directory is a line of the map of directories.
type directory struct {
	path, floor string
}

// A line of the map has a floor only if it is the first one of the floor.
var mapLine = regexp.MustCompile(`(?m)^([1-5 ]) {2}([a-z/]+) {2,}\S`)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPackages: the map in architecture.md has a line for each package, and no import climbs to a
// higher floor. make lint checks the imports within a floor.
func TestPackages(t *testing.T) {
	directories := readMap(t)
	list, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{or (len .GoFiles) (len .CgoFiles)}} {{join .Imports \" \"}}", module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	hasPackage := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		name := short(fields[0])
		isOutside := name == "e2e" || strings.HasPrefix(name, "e2e/")
		hasOnlyTests := fields[1] == "0"
		if isOutside || hasOnlyTests {
			continue
		}
		from := directoryOf(directories, name)
		if from.floor == "" {
			t.Errorf("architecture.md lacks the package %s", name)
			continue
		}
		hasPackage[from.path] = true
		for _, path := range fields[2:] {
			if !strings.HasPrefix(path, module) {
				continue
			}
			to := directoryOf(directories, short(path))
			if to.floor > from.floor {
				t.Errorf("%s (floor %s) imports %s (floor %s)", name, from.floor, short(path), to.floor)
			}
		}
	}
	for _, d := range directories {
		if !hasPackage[d.path] {
			t.Errorf("architecture.md has %s, which has no package of its own", d.path)
		}
	}
}

// readMap reads the lines of the map of directories.
func readMap(t *testing.T) []directory {
	t.Helper()
	var directories []directory
	floor := ""
	for _, line := range mapLine.FindAllStringSubmatch(read(t, "architecture.md"), -1) {
		if line[1] != " " {
			floor = line[1]
		}
		directories = append(directories, directory{strings.TrimSuffix(line[2], "/"), floor})
	}
	if len(directories) < 20 {
		t.Fatalf("the map of architecture.md has %d directories", len(directories))
	}
	return directories
}

// directoryOf returns the most specific line of the map that a package is in.
func directoryOf(directories []directory, name string) directory {
	best := directory{}
	for _, d := range directories {
		isIn := name == d.path || strings.HasPrefix(name, d.path+"/")
		if isIn && len(d.path) > len(best.path) {
			best = d
		}
	}
	return best
}

// short returns an import path below the module's, "rt" for the module's package.
func short(path string) string {
	if path == module {
		return "rt"
	}
	return strings.TrimPrefix(path, module+"/")
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
