package gempba

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzParse: whatever is read can be written, is JSON, and is the same when it is read again.
func FuzzParse(f *testing.F) {
	for _, data := range archive(f) {
		for line := range bytes.Lines(data) {
			f.Add(line)
		}
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := Parse(line)
		if err != nil {
			return
		}
		out, err := AppendLine(nil, e)
		if err != nil || !json.Valid(out) || bytes.IndexByte(out, '\n') != len(out)-1 {
			t.Fatalf("%q becomes %q, %v", line, out, err)
		}
		second, err := Parse(out)
		if err != nil {
			t.Fatalf("%q cannot be read: %v", out, err)
		}
		again, err := AppendLine(nil, second)
		if err != nil || !bytes.Equal(out, again) {
			t.Fatal(cmp.Diff(string(out), string(again)), err)
		}
	})
}

// FuzzControl: a line that is understood asks for something within the bounds.
func FuzzControl(f *testing.F) {
	for _, line := range []string{
		`{"kind":"set_worker_interval_ms","value":250}` + "\n", `{"kind":"set_node_interval_ms","value":1e99}` + "\n",
		`{"kind":"be_node_sentinel"}` + "\n" + `{"kind":"x"}` + "\n{", "\n\n", `{"value":-1,"kind":"SET_NODE_INTERVAL_MS"}` + "\r\n",
	} {
		f.Add([]byte(line), 7)
	}
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		var l ControlLines
		size = max(1, size)
		for len(data) > 0 {
			n := min(size, len(data))
			err := l.Take(data[:n], func(c Control) {
				if i := c.Interval(); i < MinInterval || i > MaxInterval {
					t.Fatalf("%+v asks for %s", c, i)
				}
			})
			if err != nil {
				return
			}
			data = data[n:]
		}
	})
}
