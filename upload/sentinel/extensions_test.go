package sentinel

import (
	"strings"
	"testing"

	"github.com/resource-tracker/rt/upload"
)

// Only version 1 of rt.record in a list of a limited size means that the receiver takes records. Any
// other list is no error: it is none of ours.
func TestExtensions(t *testing.T) {
	long := `,"x":"` + strings.Repeat("x", maxExtensions) + `"`
	for list, want := range map[string]bool{
		`{"rt.record":1}`: true, `{"a":{"b":[1]},"rt.record":1}`: true,
		`{"rt.record":2}`: false, `{"rt.record":1.0}`: false, `{"rt.record":"1"}`: false, `{"rt.record":true}`: false, `{"rt.record":[1]}`: false,
		`{"RT.RECORD":1}`: false, `{"rt.records":1}`: false, `{"x":{"rt.record":1}}`: false,
		`{}`: false, `null`: false, `["rt.record"]`: false, `"rt.record"`: false, `1`: false,
		`{"rt.record":1` + long + `}`: false,
	} {
		for _, dialect := range []string{upload.DialectSpec, upload.DialectLive} {
			c, _ := newClient(t, dialect, always(201, `{"extensions":`+list+`,`+registered[1:]))
			got, err := c.Register(t.Context(), run, host)
			if isSpec := dialect == upload.DialectSpec; err != nil || got.Record != (want && isSpec) {
				t.Errorf("%s, %.40s: %v, %v", dialect, list, got.Record, err)
			}
		}
	}
}
