// Package top is the view that rt-spool top shows on a terminal: the jobs of a
// node, one of them in detail, or the workers of a GemPBA program. What it shows
// comes from a Source as a Frame, pages make tables of it, and the screen lays
// these out: only the screen knows of a terminal.
package top

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/resource-tracker/rt/internal/tui"
)

// Options say how it is shown.
type Options struct {
	ASCII bool           // no characters beyond ASCII in sparklines and bars
	Zone  *time.Location // of the times; nil is UTC
	Every time.Duration  // between two looks; 0 is a second
	All   bool           // runs that ended more than a day ago as well
	// Open is the file of the run that is shown in detail at first; empty is the list.
	Open string
	// At is how long after the first reading Open is shown; negative is the newest.
	At time.Duration
}

func (o Options) withDefaults() Options {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	if o.Every <= 0 {
		o.Every = time.Second
	}
	return o
}

// Ask is what the screen wants to see.
type Ask struct {
	Open string        // the file of the run to show in detail; empty is the list alone
	At   time.Duration // after its first reading; negative is the newest
	All  bool          // as in Options
	Wait bool          // until all is read; else a Frame may have Pending
}

// Source looks at what is to be shown. It is called from one goroutine at a time,
// and what it returned is not changed later.
type Source interface {
	Look(ctx context.Context, ask Ask) (*Frame, error)
}

// Run shows a source on the whole terminal until its user has seen enough. The
// error of the first look ends it; later ones are shown.
func Run(ctx context.Context, src Source, o Options, in io.Reader, out *os.File) error {
	m := newModel(ctx, src, o.withDefaults())
	return errors.Join(tui.Run(ctx, m, in, out), m.failed)
}
