package printable

import "testing"

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"job \u00e9\u4e16":      "job \u00e9\u4e16",
		"\x1b[31mred\x1b]0;t\a": "?[31mred?]0;t?",
		"a\nb\tc\r\x00":         "a?b?c??",
		"c1 \u009b2J":           "c1 ?2J",
		"\u202egpj.exe\u2066":   "?gpj.exe?",
		"a\u200bb\ufeffc\u200d": "a?b?c?",
		"a\u2028b\u2029":        "a?b?",
		"bad \xff\xfe":          "bad \ufffd\ufffd",
	} {
		if got := Text(text); got != want {
			t.Errorf("Text(%q) = %q, want %q", text, got, want)
		}
		if got := Is(text); got != (text == want) {
			t.Errorf("Is(%q) = %v", text, got)
		}
	}
	for text, want := range map[string]string{
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'?=1", "a=1": "a=1", "": "",
		"x;=cmd": "x;'=cmd", `a;b; "-1`: `a;b;' "-1`, "a;b=1": "a;b=1", " =1": "' =1",
	} {
		if got := Cell(text); got != want {
			t.Errorf("Cell(%q) = %q, want %q", text, got, want)
		}
	}
	if got := Lines("one\ntwo\x1b\trows\n"); got != "one\n  two?  rows" {
		t.Errorf("Lines: %q", got)
	}
}
