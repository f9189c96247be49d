package man_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	pageWidth = 80
	indent    = 7 // of man(1)
	tableGap  = 3 // between two columns of tbl(1)
)

var (
	tables   = regexp.MustCompile(`(?s)\n\.TS\n.*?\.\n(.*?)\n\.TE\n`)
	examples = regexp.MustCompile(`(?s)\n\.EX\n(.*?)\n\.EE\n`)
	fonts    = regexp.MustCompile(`\\f.`)
	special  = regexp.MustCompile(`\\\(..|\\e`)
)

// TestWidth: what man(1) cannot break fits into 80 columns.
func TestWidth(t *testing.T) {
	names, err := filepath.Glob("*.[158]")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d pages: %v", len(names), err)
	}
	pages := map[string]page{"rt.toml.5": configPage(t)}
	for _, name := range names {
		pages[name] = readPage(t, name)
	}
	for name, source := range pages {
		text := special.ReplaceAllString(fonts.ReplaceAllString(string(source), ""), "x")
		for _, m := range tables.FindAllStringSubmatch(text, -1) {
			if n := tableWidth(m[1]); n > pageWidth-indent {
				t.Errorf("%s: %d columns of %d has the table\n%.80s", name, indent+n, pageWidth, m[1])
			}
		}
		for _, m := range examples.FindAllStringSubmatch(text, -1) {
			for line := range strings.SplitSeq(m[1], "\n") {
				if n := indent + utf8.RuneCountInString(line); n > pageWidth {
					t.Errorf("%s: %d columns of %d has the line\n%s", name, n, pageWidth, line)
				}
			}
		}
	}
}

func tableWidth(table string) int {
	var widest []int
	for line := range strings.SplitSeq(table, "\n") {
		for i, cell := range strings.Split(line, "|") {
			if i == len(widest) {
				widest = append(widest, 0)
			}
			widest[i] = max(widest[i], utf8.RuneCountInString(cell))
		}
	}
	n := tableGap * (len(widest) - 1)
	for _, w := range widest {
		n += w
	}
	return n
}
