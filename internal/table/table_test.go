package table

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// A column begins at the same place of the terminal in each row, whatever the width of the characters before it.
func TestColumnsOfWideCharacters(t *testing.T) {
	columns := []Column[string]{
		{Head: "JOB", Cell: func(*string) string { return "1" }},
		{Head: "NAME", IsName: true, Cell: func(name *string) string { return *name }},
		{Head: "USER", Cell: func(*string) string { return "USER" }},
	}
	names := []string{"plain", "世蓮-解析ジョブ", "naïve-ün", "nai\u0308ve", "👩‍🔬 lab", "한국어", "Ｆｕｌｌ", "", "世蓮解析世蓮解析世蓮解析世蓮解析"}
	for _, width := range []int{0, 80, 30} {
		var out strings.Builder
		if _, err := Write(&out, columns, names, width); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		want := ansi.StringWidth(lines[0][:strings.Index(lines[0], "USER")])
		for _, line := range lines {
			at := strings.LastIndex(line, "USER")
			if at < 0 || ansi.StringWidth(line[:at]) != want {
				t.Errorf("width %d: USER is not at column %d of\n%s", width, want, &out)
				break
			}
			if n := ansi.StringWidth(line); width > 0 && n > width {
				t.Errorf("width %d: %q takes %d columns", width, line, n)
			}
		}
	}
}
