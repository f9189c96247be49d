// Testsum reads the output of `go test -json` from standard input, prints failures and one
// line per package, and ends with lists of slow and of skipped tests and the totals.
//
//	{ go test -json ./...; echo "exit $?"; } | testsum -allow FILE -again COMMAND -again-e2e COMMAND
//
// A line "exit N" is the exit status of a command. FILE lists the tests that may be
// skipped, one "package test" per line; # starts a comment. With CI=true in the environment
// any other skip is a failure. COMMAND is a go test -json, see again. The exit status is 0
// if no test failed.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
)

const (
	module      = "github.com/resource-tracker/rt"
	rootPackage = "rt" // how the summary names the package in the module's root
)

// event is one line of test2json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

type summary struct {
	out             io.Writer
	output          map[string][]string // output by test
	passed, skipped int
	packages        int
	crashed         bool // a test binary or a command did not run to its end, or has a data race
	skips           []string
	slowest         []slow
	failures        []failure
	before          int       // failures of the commands before
	commands        int       // that have ended
	flaky           []failure // failed, and passed when they ran again
}

// slow is a top-level test that took at least slowAfter seconds.
type slow struct {
	id      string
	seconds float64
}

const slowAfter = 30

// failure is a failed test, or else what failed in words.
type failure struct {
	pkg, test, text string
}

func (f failure) String() string {
	s := f.text
	if f.test != "" {
		s = f.pkg + " " + f.test + messages(f.text)
	}
	return s
}

func main() {
	allowFile := flag.String("allow", "", "tests that may be skipped: `FILE`")
	unit := flag.String("again", "", "the `COMMAND` that runs failed tests of packages again")
	endToEnd := flag.String("again-e2e", "", "the `COMMAND` that runs failed end-to-end tests again")
	commands := flag.Int("commands", 0, "the `NUMBER` of commands; 0 is any")
	flag.Parse()
	allowed, err := readAllowed(*allowFile)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(2)
	}
	s := &summary{out: os.Stdout, output: map[string][]string{}}
	if err := s.read(os.Stdin); err != nil {
		s.fail("reading the tests' output: " + err.Error())
	}
	if s.commands < *commands {
		s.fail(fmt.Sprintf("%d of %d test commands have ended", s.commands, *commands))
	}
	canRunAgain := *unit != "" && *endToEnd != ""
	if canRunAgain {
		s.again(strings.Fields(*unit), strings.Fields(*endToEnd))
	}
	if !s.finish(allowed, os.Getenv("CI") == "true") {
		os.Exit(1)
	}
}

func readAllowed(file string) (map[string]bool, error) {
	allowed := map[string]bool{}
	if file == "" {
		return allowed, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the list of allowed skips: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		if f := strings.Fields(line); len(f) == 2 {
			allowed[f[0]+" "+f[1]] = true
		} else if len(f) != 0 {
			return nil, fmt.Errorf("%s: %q is not a package and a test", file, strings.TrimSpace(line))
		}
	}
	return allowed, nil
}

func (s *summary) read(r io.Reader) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		line := sc.Text()
		if status, ok := strings.CutPrefix(line, "exit "); ok {
			s.commandEnded(status)
			continue
		}
		var e event
		if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil {
			fmt.Fprintln(s.out, line)
			continue
		}
		s.event(e)
	}
	return sc.Err()
}

// commandEnded notes a command that failed without a failure that is known.
func (s *summary) commandEnded(status string) {
	isOtherwiseKnown := status == "1" && len(s.failures) > s.before
	if status != "0" && !isOtherwiseKnown {
		s.fail("a test command ended with status " + status)
	}
	s.before = len(s.failures)
	s.commands++
}

func (s *summary) event(e event) {
	pkg := strings.TrimPrefix(strings.TrimPrefix(e.Package, module), "/")
	if pkg == "" {
		pkg = rootPackage
	}
	id := pkg + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "build-fail":
		s.fail("does not build: " + e.ImportPath)
	case "output":
		s.output[id] = append(s.output[id], e.Output)
		for _, start := range []string{"panic: ", "fatal error: ", "WARNING: DATA RACE"} {
			s.crashed = s.crashed || strings.HasPrefix(e.Output, start)
		}
	case "pass", "fail", "skip":
		s.result(e, pkg, id)
		delete(s.output, id)
	}
}

func (s *summary) result(e event, pkg, id string) {
	text := strings.Join(s.output[id], "")
	if e.Test == "" {
		if e.Action == "skip" { // no test files
			return
		}
		s.packages++
		fmt.Fprintf(s.out, "%-5s %s (%.1f s)\n", map[string]string{"pass": "ok", "fail": "FAIL"}[e.Action], pkg, e.Elapsed)
		if e.Action == "fail" {
			fmt.Fprint(s.out, text)
			s.failPackage(pkg)
		}
		return
	}
	isTopLevel := !strings.Contains(e.Test, "/")
	if isTopLevel && e.Elapsed >= slowAfter {
		s.slowest = append(s.slowest, slow{id, e.Elapsed})
	}
	switch e.Action {
	case "pass":
		s.passed++
	case "fail":
		s.failures = append(s.failures, failure{pkg: pkg, test: e.Test, text: text})
		fmt.Fprint(s.out, text)
	case "skip":
		s.skipped++
		s.skips = append(s.skips, id+"\n"+text)
	}
}

func (s *summary) fail(what string) { s.failures = append(s.failures, failure{text: what}) }

// failPackage notes a package of which the running command has no failed test.
func (s *summary) failPackage(pkg string) {
	for _, f := range s.failures[s.before:] {
		if f.pkg == pkg {
			return
		}
	}
	s.fail(pkg)
}

// finish prints the list of skips and the totals, and reports whether no test failed.
func (s *summary) finish(allowed map[string]bool, strict bool) bool {
	sort.Strings(s.skips)
	s.listSlowest()
	fmt.Fprintf(s.out, "\nSkipped: %d\n", len(s.skips))
	for _, skip := range s.skips {
		id, text, _ := strings.Cut(skip, "\n")
		note := ""
		if !allowed[id] {
			note = "  (not on the list of allowed skips)"
			if strict {
				s.fail("skipped, and not on the list of allowed skips: " + id)
			}
		}
		fmt.Fprintf(s.out, "- %s%s\n", id, note)
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(strings.TrimSpace(line), "---") && !strings.HasPrefix(line, "===") {
				fmt.Fprint(s.out, "    ", strings.TrimSpace(line), "\n")
			}
		}
	}
	if s.packages == 0 || s.passed == 0 {
		s.fail("no test ran")
	}
	s.list("Failed once, and passed when they ran again (each is a defect of the test or of the program)", s.flaky)
	s.list("Failed", s.failures)
	fmt.Fprintf(s.out, "\n%d passed, %d failed, %d skipped\n", s.passed, len(s.failures), s.skipped)
	return len(s.failures) == 0
}

// listSlowest prints the tests that decide how long CI takes.
func (s *summary) listSlowest() {
	if len(s.slowest) == 0 {
		return
	}
	sort.Slice(s.slowest, func(i, j int) bool { return s.slowest[i].seconds > s.slowest[j].seconds })
	fmt.Fprintf(s.out, "\nTests of %d s and more: %d\n", slowAfter, len(s.slowest))
	for _, t := range s.slowest {
		fmt.Fprintf(s.out, "- %4.0f s  %s\n", t.seconds, t.id)
	}
}

func (s *summary) list(title string, all []failure) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(s.out, "\n%s: %d\n", title, len(all))
	for _, f := range all {
		fmt.Fprintln(s.out, "-", f)
	}
}
