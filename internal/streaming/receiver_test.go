package streaming

import "testing"

func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{
		"/tmp/a-b_c.d:1": "/tmp/a-b_c.d:1", "": "''", "/tmp/a b": "'/tmp/a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "ü": "'ü'",
	} {
		if got := ShellWord(word); got != want {
			t.Errorf("ShellWord(%q) = %s, want %s", word, got, want)
		}
	}
}
