package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	failedTest = `{"Action":"output","Package":"github.com/resource-tracker/rt/e2e","Test":"TestJob/a","Output":"    job_test.go:7: 3 s are missing\n"}
{"Action":"fail","Package":"github.com/resource-tracker/rt/e2e","Test":"TestJob/a","Elapsed":1}
{"Action":"fail","Package":"github.com/resource-tracker/rt/e2e","Test":"TestJob","Elapsed":1}
{"Action":"pass","Package":"github.com/resource-tracker/rt/e2e","Test":"TestOther","Elapsed":1}
{"Action":"fail","Package":"github.com/resource-tracker/rt/e2e","Elapsed":2}
exit 1
`
	passedTest = `{"Action":"pass","Package":"github.com/resource-tracker/rt/e2e","Test":"TestJob/a","Elapsed":1}
{"Action":"pass","Package":"github.com/resource-tracker/rt/e2e","Test":"TestJob","Elapsed":1}
{"Action":"pass","Package":"github.com/resource-tracker/rt/e2e","Elapsed":2}
`
	crash    = `{"Action":"output","Package":"github.com/resource-tracker/rt/e2e","Test":"TestJob","Output":"panic: test timed out after 2h0m0s\n"}` + "\n"
	unitTest = `{"Action":"fail","Package":"github.com/resource-tracker/rt/spool","Test":"TestWrite","Elapsed":1}` + "\n"
	race     = `{"Action":"output","Package":"github.com/resource-tracker/rt/spool","Test":"TestWrite","Output":"WARNING: DATA RACE\n"}` + "\n"
	lost     = `{"Action":"output","Package":"github.com/resource-tracker/rt/e2e","Output":"signal: killed\n"}
{"Action":"fail","Package":"github.com/resource-tracker/rt/e2e","Elapsed":2}
exit 1
`
	noBuild = `{"Action":"build-fail","ImportPath":"github.com/resource-tracker/rt/spool"}` + "\n"
)

func TestAgain(t *testing.T) {
	for _, test := range []struct {
		name, first, second string
		isGood              bool
		ends                string
	}{
		{"passes then", failedTest, passedTest, true, "- e2e TestJob/a\n    job_test.go:7: 3 s are missing\n- e2e TestJob\n\n3 passed, 0 failed, 0 skipped\n"},
		{"fails again", failedTest, failedTest, false, "\n1 passed, 2 failed, 0 skipped\n"},
		{"does not run", failedTest, "", false, "\n1 passed, 2 failed, 0 skipped\n"},
		{"crashed", crash + failedTest, passedTest, false, "\n1 passed, 2 failed, 0 skipped\n"},
		{"a unit test too", unitTest + failedTest, passedTest, true, "\n4 passed, 0 failed, 0 skipped\n"},
		{"data race", race + unitTest + failedTest, passedTest, false, "\n1 passed, 3 failed, 0 skipped\n"},
		{"another failure", noBuild + failedTest, passedTest, false, "\n1 passed, 3 failed, 0 skipped\n"},
		{"killed", strings.Replace(failedTest, "exit 1", "exit 137", 1), passedTest, false, "\n1 passed, 3 failed, 0 skipped\n"},
		{"another command is killed", failedTest + lost, passedTest, false, "\n1 passed, 3 failed, 0 skipped\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "second")
			err := os.WriteFile(file, []byte(test.second), 0o600)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			s := &summary{out: &out, output: map[string][]string{}}
			err = s.read(strings.NewReader(test.first))
			if err != nil {
				t.Fatal(err)
			}
			printsFor := func(arguments string) []string {
				return []string{"sh", "-c", `[ "$2 $3" = '` + arguments + `' ] && cat ` + file, "sh"}
			}
			s.again(printsFor("^TestWrite$ ./spool"), printsFor("^TestJob$ ./e2e"))
			isGood := s.finish(nil, true)
			if isGood != test.isGood || !strings.HasSuffix(out.String(), test.ends) {
				t.Errorf("good %v, want %v\n%s", isGood, test.isGood, out.String())
			}
		})
	}
}

// Each of maxAgain failed tests runs again. One failure more, and none does.
func TestAgainLimit(t *testing.T) {
	for _, failed := range []int{maxAgain, maxAgain + 1} {
		var first strings.Builder
		for n := range failed {
			first.WriteString(strings.ReplaceAll(unitTest, "TestWrite", "TestWrite"+string(rune('A'+n))))
		}
		file := filepath.Join(t.TempDir(), "second")
		err := os.WriteFile(file, []byte(passedTest), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		s := &summary{out: &out, output: map[string][]string{}}
		err = s.read(strings.NewReader(first.String() + "exit 1\n"))
		if err != nil {
			t.Fatal(err)
		}
		s.again([]string{"sh", "-c", "cat " + file, "sh"}, []string{"false"})
		want := 0
		if failed == maxAgain {
			want = failed
		}
		runs := strings.Count(out.String(), "== again: ")
		if left := len(s.failures); runs != want || left != failed-want {
			t.Errorf("%d failed tests: %d ran again, %d still fail, want %d and %d\n%s", failed, runs, left, want, failed-want, out.String())
		}
	}
}
