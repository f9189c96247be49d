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

// Without a variable the command names the public receiver: rt-spool drain has another default.
func TestDrainCommand(t *testing.T) {
	for endpoint, want := range map[string]string{
		"":              "SENTINEL_API_URL=https://api.sentinel.sparecores.net rt-spool --spool '/tmp/a b' drain",
		"http://r:1/x/": "SENTINEL_API_URL=http://r:1/x rt-spool --spool '/tmp/a b' drain",
	} {
		if got := DrainCommand(endpoint, "/tmp/a b"); got != want {
			t.Errorf("%q: %s", endpoint, got)
		}
	}
}
