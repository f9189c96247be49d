package rt

import (
	"regexp"
	"testing"
)

func TestVersionLine(t *testing.T) {
	defer func(c string) { Commit = c }(Commit)
	for commit, want := range map[string]string{
		"":        `^rt-spool \d+\.\d+\.\d+\S* \(go1\.\S+, spool schema \d+\)$`,
		"2a56fd5": `^rt-spool \d+\.\d+\.\d+\S* \(commit 2a56fd5, go1\.\S+, spool schema \d+\)$`,
	} {
		Commit = commit
		if got := VersionLine("rt-spool"); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("commit %q: %q does not match %s", commit, got, want)
		}
	}
}
