package main

import (
	"strings"
	"testing"
)

// summarize reads lines and returns what is printed, without the times, and whether all is well.
func summarize(t *testing.T, input string, allowed map[string]bool, isStrict bool) (string, bool) {
	t.Helper()
	var out strings.Builder
	s := newSummary(&out, 2)
	s.elsewhere, s.isComplete = "elsewhere: ", true
	s.readAll(strings.NewReader(input))
	isWell := s.finish(allowed, isStrict)
	return out.String(), isWell
}

const onePasses = `{"Action":"start","Package":"github.com/resource-tracker/rt/spool"}
{"Action":"run","Package":"github.com/resource-tracker/rt/spool","Test":"TestA"}
{"Action":"output","Package":"github.com/resource-tracker/rt/spool","Test":"TestA","Output":"    versions: Slurm 22.05.8, cgroup v2\n"}
{"Action":"pass","Package":"github.com/resource-tracker/rt/spool","Test":"TestA","Elapsed":31}
{"Action":"skip","Package":"github.com/resource-tracker/rt/spool","Test":"TestB"}
{"Action":"pass","Package":"github.com/resource-tracker/rt/spool","Elapsed":32}
`

var leftToAnother = strings.Replace(onePasses, `{"Action":"skip"`, `{"Action":"output","Package":"github.com/resource-tracker/rt/spool","Test":"TestB","Output":"elsewhere: it is long\n"}
{"Action":"skip"`, 1)

func TestSummary(t *testing.T) {
	for _, k := range []struct {
		name, input string
		allowed     map[string]bool
		isStrict    bool
		isWell      bool
		has         []string
	}{
		{"passes", onePasses + "exit 0\n", nil, false, true,
			[]string{"1/2] ok   spool (32.0 s)", "Jobs ran on:\n- Slurm 22.05.8, cgroup v2", "-   31 s  spool TestA", "- spool TestB", "1 passed, 0 failed, 1 skipped\n"}},
		{"a part is left out", onePasses + "skip jobs on a real Slurm: it needs root\nexit 0\n", nil, false, true,
			[]string{"- jobs on a real Slurm\n    it needs root\n", "1 passed, 0 failed, 2 skipped\n"}},
		{"another command runs a skipped test", leftToAnother + `{"Action":"pass","Package":"github.com/resource-tracker/rt/spool","Test":"TestB"}
`, nil, true, true, []string{"2 passed, 0 failed, 0 skipped\n"}},
		{"no command runs a skipped test", leftToAnother, nil, true, false, []string{"- spool TestB is left to another command, and none ran it\n"}},
		{"an allowed skip", onePasses + "exit 0\n", map[string]bool{"spool TestB": true}, true, true, nil},
		{"another skip", onePasses + "exit 0\n", nil, true, false, []string{"not on the list of allowed skips: spool TestB"}},
		{"a command fails", onePasses + "exit 2\n", nil, false, false, []string{"a test command ended with status 2"}},
		{"nothing ran", "exit 0\n", nil, false, false, []string{"no test ran"}},
		{"the errors of a failed test are at the end", strings.Replace(strings.Replace(onePasses, "versions: Slurm", "a_test.go:7: no Slurm", 1), `"Action":"pass"`, `"Action":"fail"`, 1) + "exit 1\n", nil, false, false,
			[]string{"Failed: 1\n- spool TestA\n    a_test.go:7: no Slurm 22.05.8, cgroup v2\n"}},
		{"a test fails", strings.Replace(onePasses, `"Action":"pass","Package":"github.com/resource-tracker/rt/spool","Test"`,
			`"Action":"fail","Package":"github.com/resource-tracker/rt/spool","Test"`, 1) + "exit 1\n", nil, false, false,
			[]string{"Failed: 1\n- spool TestA", "0 passed, 1 failed, 1 skipped"}},
	} {
		t.Run(k.name, func(t *testing.T) {
			out, isWell := summarize(t, k.input, k.allowed, k.isStrict)
			if isWell != k.isWell {
				t.Errorf("well: %v, want %v", isWell, k.isWell)
			}
			for _, text := range k.has {
				if !strings.Contains(out, text) {
					t.Errorf("there is no %q in\n%s", text, out)
				}
			}
		})
	}
}
