package proc

import (
	"bytes"
	"fmt"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// NewLoad returns the source of Node.Load1, in hundredths: /proc/loadavg (proc_loadavg(5)).
func NewLoad(fs FS) *File {
	return &File{"load", file{path: fs.Proc + "/loadavg"}, func(b []byte, s *rt.Snapshot) error {
		v, ok := parseLoad(b)
		if !ok {
			return fmt.Errorf("%q does not begin with a load average", b)
		}
		s.Node.Load1.Set(v)
		return nil
	}}
}

// parseLoad parses the first number, which has two decimals, in hundredths.
func parseLoad(b []byte) (uint64, bool) {
	word, _ := procfile.Field(b)
	whole, part, _ := bytes.Cut(word, []byte{'.'})
	w, ok0 := procfile.Uint(whole)
	p, ok1 := procfile.Uint(part)
	if !ok0 || !ok1 || len(part) != 2 || w > 1<<40 {
		return 0, false
	}
	return w*100 + p, true
}
