package gempba

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzParse: whatever is read can be written, is JSON, and is the same when it is read again.
func FuzzParse(f *testing.F) {
	// Short seeds: the fuzzer minimises what is new, in a time that grows with the square of the
	// length. TestRecordedStream decodes whole lines.
	for _, line := range []string{
		`{"version":1,"ts":1,"workers":[{"worker_id":0,"seq_no":1,"edges_out":[{"to":1,"bytes":2,"count":3}]}]}`,
		`{"ts":1,"workers":[{"worker_id":3,"process_cpu_pct":-nan,"rt_unread":["seq_no","tasks_running"]}]}`,
		`{"ts":1,"nodes":[{"sentinel_worker_id":0,"hostname":"n","sockets":[{"cpu_pct":inf}],"cgroup_mem_used_bytes":0}]}`,
		`{"ts":1,"topology":{"nodes":[{"hostname":"n","worker_ids":[0],"sockets":[{"cpu_ids":[0]}]}]}}`,
		`{"ts":1,"topology":{"identities":[{"allowed_cpu_mask":"3f","pid":1},{"allowed_cpu_ids":[2],"rt_unread":["pid"]}]}}`,
		`{"ts":1,"topology":null,"rt_run":{"job_id":7,"uid":1}}`,
	} {
		f.Add([]byte(line))
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
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for c, err := range Controls(bytes.NewReader(data)) {
			if i := c.Interval(); err == nil && (i < MinInterval || i > MaxInterval) {
				t.Fatalf("%+v asks for %s", c, i)
			}
		}
	})
}
