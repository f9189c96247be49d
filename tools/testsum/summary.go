package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"
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
	out            io.Writer
	began, printed time.Time
	of             int                 // packages that will be tested; 0 is unknown
	output         map[string][]string // output by test
	running        map[string]string   // packages that run, each with the test that started last
	passed         int
	packages       int
	elsewhere      string // skips whose reason has this text are not counted: another command runs the test
	isComplete     bool
	pending        map[string]bool // tests that were skipped so, and that no command has run
	ran            map[string]bool
	skips          []skip
	versions       []string // what the tests on a real Slurm ran on
	slowest        []slow
	failures       []failure
	before         int // failures of the commands before
	commands       int // that have ended
}

// slow is a top-level test that took at least slowAfter seconds.
type slow struct {
	id      string
	seconds float64
}

const slowAfter = 30

// skip is a skipped test or part, with the reason.
type skip struct {
	id, reason string
}

// failure is a failed test, or else what failed in words.
type failure struct {
	pkg, test, text string
}

func (f failure) String() string {
	if f.test == "" {
		return f.text
	}
	return f.pkg + " " + f.test
}

var ofTest = regexp.MustCompile(`^\s+\w+_test\.go:\d+: .`)

// errors returns the first lines of what the test printed, each cut: what failed can be read at the end of a long log.
func (f failure) errors() (lines []string) {
	for line := range strings.Lines(f.text) {
		if len(lines) < 6 && ofTest.MatchString(line) {
			line = strings.TrimSpace(line)
			lines = append(lines, line[:min(len(line), 300)])
		}
	}
	return lines
}

func newSummary(out io.Writer, of int) *summary {
	now := time.Now()
	return &summary{out: out, of: of, began: now, printed: now, output: map[string][]string{}, running: map[string]string{}, pending: map[string]bool{}, ran: map[string]bool{}}
}

// progress is the time since the start, and how many packages have ended.
func (s *summary) progress() string {
	seconds := int(time.Since(s.began).Seconds())
	text := fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
	if s.of > 0 {
		text += fmt.Sprintf(" %d/%d", s.packages, s.of)
	}
	return text
}

func (s *summary) print(format string, args ...any) {
	fmt.Fprintf(s.out, format, args...)
	s.printed = time.Now()
}

// showRunning prints what runs if nothing was printed for a while.
func (s *summary) showRunning() {
	if time.Since(s.printed) < quiet {
		return
	}
	var names []string
	for pkg, test := range s.running {
		names = append(names, strings.TrimSpace(pkg+" "+test))
	}
	slices.Sort(names)
	what := "runs: " + strings.Join(names, ", ")
	if len(names) == 0 {
		what = "compiles"
	}
	s.print("[%s] %s\n", s.progress(), what)
}

// line takes a line of the output of the commands.
func (s *summary) line(line string) {
	if status, ok := strings.CutPrefix(line, "exit "); ok {
		s.commandEnded(status)
		return
	}
	if part, ok := strings.CutPrefix(line, "skip "); ok {
		name, reason, _ := strings.Cut(part, ": ")
		s.skips = append(s.skips, skip{name, reason})
		return
	}
	var e event
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil {
		s.print("%s\n", line)
		return
	}
	s.event(e)
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

var versions = regexp.MustCompile(`versions: (Slurm [^\n]*)`)

func (s *summary) event(e event) {
	pkg := strings.TrimPrefix(strings.TrimPrefix(e.Package, module), "/")
	if pkg == "" {
		pkg = rootPackage
	}
	id := pkg + " " + e.Test
	switch e.Action {
	case "build-output":
		s.print("%s", e.Output)
	case "build-fail":
		s.fail("does not build: " + e.ImportPath)
	case "start", "run":
		s.running[pkg] = e.Test
	case "output":
		s.output[id] = append(s.output[id], e.Output)
		if found := versions.FindStringSubmatch(e.Output); found != nil && !slices.Contains(s.versions, found[1]) {
			s.versions = append(s.versions, found[1])
		}
	case "pass", "fail", "skip":
		s.result(e, pkg, id)
		delete(s.output, id)
	}
}

func (s *summary) result(e event, pkg, id string) {
	text := strings.Join(s.output[id], "")
	if e.Test == "" {
		s.packageEnded(e, pkg, text)
		return
	}
	isTopLevel := !strings.Contains(e.Test, "/")
	if isTopLevel && e.Elapsed >= slowAfter {
		s.slowest = append(s.slowest, slow{id, e.Elapsed})
		s.print("[%s] %-4s %s (%.0f s)\n", s.progress(), e.Action, id, e.Elapsed)
	}
	isElsewhere := e.Action == "skip" && s.elsewhere != "" && strings.Contains(text, s.elsewhere)
	if isElsewhere {
		s.pending[id] = true
		return
	}
	s.ran[id] = true
	switch e.Action {
	case "pass":
		s.passed++
	case "fail":
		s.failures = append(s.failures, failure{pkg: pkg, test: e.Test, text: text})
		s.print("%s", text)
	case "skip":
		s.skips = append(s.skips, skip{id, text})
	}
}

func (s *summary) packageEnded(e event, pkg, text string) {
	delete(s.running, pkg)
	if e.Action == "skip" { // no test files
		return
	}
	s.packages++
	s.print("[%s] %-4s %s (%.1f s)\n", s.progress(), map[string]string{"pass": "ok", "fail": "FAIL"}[e.Action], pkg, e.Elapsed)
	if e.Action == "fail" {
		s.print("%s", text)
		s.failPackage(pkg)
	}
}

func (s *summary) fail(what string) { s.failures = append(s.failures, failure{text: what}) }

// failPackage notes a package if the running command has no failed test in it.
func (s *summary) failPackage(pkg string) {
	for _, f := range s.failures[s.before:] {
		if f.pkg == pkg {
			return
		}
	}
	s.fail(pkg)
}

// failPending fails each test that one command left to another, and that none ran.
func (s *summary) failPending() {
	for id := range s.ran {
		delete(s.pending, id)
	}
	for _, id := range slices.Sorted(maps.Keys(s.pending)) {
		s.fail(id + " is left to another command, and none ran it")
	}
}

// finish prints the lists and the totals, and reports whether no test failed.
func (s *summary) finish(allowed map[string]bool, isStrict bool) bool {
	slices.SortFunc(s.skips, func(a, b skip) int { return strings.Compare(a.id, b.id) })
	s.listVersions()
	s.listSlowest()
	s.listSkips(allowed, isStrict)
	if s.isComplete {
		s.failPending()
	}
	isEmpty := s.packages == 0 || s.passed+len(s.failures) == 0
	if isEmpty {
		s.fail("no test ran")
	}
	if len(s.failures) > 0 {
		fmt.Fprintf(s.out, "\nFailed: %d\n", len(s.failures))
		for _, f := range s.failures {
			fmt.Fprintln(s.out, "-", f)
			for _, line := range f.errors() {
				fmt.Fprintln(s.out, "   ", line)
			}
		}
	}
	fmt.Fprintf(s.out, "\n%d passed, %d failed, %d skipped\n", s.passed, len(s.failures), len(s.skips))
	return len(s.failures) == 0
}

func (s *summary) listVersions() {
	if len(s.versions) == 0 {
		return
	}
	fmt.Fprintf(s.out, "\nJobs ran on:\n")
	for _, v := range s.versions {
		fmt.Fprintln(s.out, "-", v)
	}
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

func (s *summary) listSkips(allowed map[string]bool, isStrict bool) {
	fmt.Fprintf(s.out, "\nSkipped: %d\n", len(s.skips))
	for _, k := range s.skips {
		fmt.Fprintf(s.out, "- %s\n", k.id)
		for line := range strings.Lines(k.reason) {
			line = strings.TrimSpace(line)
			isOfGo := strings.HasPrefix(line, "---") || strings.HasPrefix(line, "===")
			if !isOfGo {
				fmt.Fprint(s.out, "    ", line, "\n")
			}
		}
		if isStrict && !allowed[k.id] {
			s.fail("skipped, and not on the list of allowed skips: " + k.id)
		}
	}
}
