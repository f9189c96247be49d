package proc

import (
	"bytes"
	"fmt"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Load reads /proc/loadavg (proc_loadavg(5)).
type Load struct {
	file file
}

// NewLoad returns the source of Node.Load1, in hundredths.
func NewLoad(fs FS) *Load { return &Load{file: file{path: fs.Proc + "/loadavg"}} }

// Name is the name of the source in the ledger.
func (l *Load) Name() string { return "load" }

// Close closes the descriptor.
func (l *Load) Close() error { return l.file.close() }

// Read fills s.Node.Load1.
func (l *Load) Read(s *rt.Snapshot) error {
	b, err := l.file.read()
	if err != nil {
		return err
	}
	v, ok := parseLoad(b)
	if !ok {
		return fmt.Errorf("parse %s: %q does not begin with a load average", l.file.path, b)
	}
	s.Node.Load1.Set(v)
	return nil
}

// parseLoad parses the first number, which has two decimals, in hundredths.
func parseLoad(b []byte) (uint64, bool) {
	word, _ := procfile.Field(b)
	whole, part, _ := bytes.Cut(word, dot)
	w, ok0 := procfile.Uint(whole)
	p, ok1 := procfile.Uint(part)
	if !ok0 || !ok1 || len(part) != 2 || w > 1<<40 {
		return 0, false
	}
	return w*100 + p, true
}

var dot = []byte{'.'}
