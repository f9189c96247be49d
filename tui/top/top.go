// Package top is the screen of rt-spool top: the jobs of a node, one of them in detail, or
// the workers of a GemPBA program. A Source returns a Frame, pages make tables from it, and
// the screen draws them. Only the screen depends on a terminal.
package top

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/resource-tracker/rt/tui"
)

// Options configure the screen.
type Options struct {
	Name  string         // of the program
	ASCII bool           // no characters beyond ASCII in sparklines and bars
	Zone  *time.Location // of the times
	All   bool           // with runs that ended more than a day ago
	// Open is the file of the run that is open at first; empty for the list.
	Open string
	// At is the moment of Open after its first reading; negative for the last reading.
	At time.Duration
}

// Wanted selects what a Source returns.
type Wanted struct {
	Open string        // the file of the open run; empty for the list only
	At   time.Duration // after its first reading; negative for the last reading
	All  bool          // as in Options
	Wait bool          // for all files; else a Frame may have Pending
}

// Source reads what is shown. One goroutine at a time calls it. It never changes what it has
// returned.
type Source interface {
	Read(ctx context.Context, wanted Wanted) (*Frame, error)
}

// Run shows a source on the whole terminal until the user quits. It returns the error of
// the first Read; later ones are shown.
func Run(ctx context.Context, src Source, o Options, in io.Reader, out *os.File) error {
	m := newModel(ctx, src, o)
	return errors.Join(tui.Run(ctx, m, in, out), m.failed)
}
