package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sort"
	"strings"
)

// maxAgain is the number of tests that may run again. On a slow machine four tests of different
// packages have failed in one run, each with a race or an assertion of its own. More failures
// than this have one cause.
const maxAgain = 5

// again runs failed tests once more, alone: unit is the command for tests of packages, endToEnd
// that for e2e. The tests share one machine with Slurm, and a pause of the machine at a wrong
// moment fails a sound test. A test that passes now stays in the summary with its messages.
// Nothing runs again after a failure of another kind, after a data race, or after a crash, after
// which the remaining tests have not run.
func (s *summary) again(unit, endToEnd []string) {
	tests := s.failedTests()
	if len(tests) == 0 || len(tests) > maxAgain || s.crashed {
		return
	}
	for _, t := range tests {
		fmt.Fprintf(s.out, "\n== again: %s %s\n", t.pkg, t.test)
		command := unit
		isEndToEnd := t.pkg == "e2e" || strings.HasPrefix(t.pkg, "e2e/")
		if isEndToEnd {
			command = endToEnd
		}
		if s.passesAlone(command, t) {
			s.excuse(t)
		}
	}
}

// failedTests returns the failed tests without their subtests, or none if something else has
// failed.
func (s *summary) failedTests() []failure {
	var tests []failure
	seen := map[string]bool{}
	for _, f := range s.failures {
		if f.test == "" {
			return nil
		}
		f.test, _, _ = strings.Cut(f.test, "/")
		if !seen[f.pkg+" "+f.test] {
			seen[f.pkg+" "+f.test] = true
			tests = append(tests, f)
		}
	}
	sort.Slice(tests, func(i, k int) bool { return tests[i].test < tests[k].test })
	return tests
}

func (s *summary) passesAlone(command []string, t failure) bool {
	dir := "./" + t.pkg
	if t.pkg == rootPackage {
		dir = "."
	}
	args := append(command[1:len(command):len(command)], "-run", "^"+regexp.QuoteMeta(t.test)+"$", dir)
	cmd := exec.Command(command[0], args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.fail("running a test again: " + err.Error())
		return false
	}
	err = cmd.Start()
	if err != nil {
		s.fail("running a test again: " + err.Error())
		return false
	}
	alone := &summary{out: s.out, output: map[string][]string{}}
	readErr := alone.read(out)
	err = cmd.Wait()
	hasPassed := alone.passed > 0 && alone.skipped == 0 && len(alone.failures) == 0
	return readErr == nil && err == nil && hasPassed
}

// excuse moves a test and its subtests from the failures to the list of flaky tests.
func (s *summary) excuse(t failure) {
	var rest []failure
	for _, f := range s.failures {
		isPartOf := f.pkg == t.pkg && (f.test == t.test || strings.HasPrefix(f.test, t.test+"/"))
		if isPartOf {
			s.flaky = append(s.flaky, f)
			s.passed++
		} else {
			rest = append(rest, f)
		}
	}
	s.failures = rest
}

// message is a line that a test has printed with t.Error or t.Log.
var message = regexp.MustCompile(`^ +[a-z0-9_]+_test\.go:[0-9]+: `)

// messages returns the last messages of a failed test, without their continuation lines.
func messages(output string) string {
	const most = 8
	var lines []string
	for line := range strings.Lines(output) {
		if message.MatchString(line) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	lines = lines[max(0, len(lines)-most):]
	var b strings.Builder
	for _, line := range lines {
		b.WriteString("\n    " + line[:min(len(line), 300)])
	}
	return b.String()
}
