package cli

import (
	"strings"
	"testing"
)

func TestFold(t *testing.T) {
	a, long := strings.Repeat("a", 38), strings.Repeat("é", 90)
	for _, tt := range []struct {
		text        string
		first, next int
		want        string
	}{
		{"", 5, 5, ""},
		{"one  word ", 5, 5, "one word"},
		{a + " " + a, 3, 9, a + " " + a},
		{a + " " + a, 4, 9, a + "\n         " + a},
		{"x " + long + " y", 0, 2, "x\n  " + long + "\n  y"},
	} {
		if got := Fold(tt.text, tt.first, tt.next); got != tt.want {
			t.Errorf("Fold(%q, %d, %d) = %q, want %q", tt.text, tt.first, tt.next, got, tt.want)
		}
	}
}
