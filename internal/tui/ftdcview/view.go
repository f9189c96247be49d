// Package ftdcview shows the metrics of FTDC files: as a list, plots, CSV, JSON or on
// a full screen.
package ftdcview

import (
	"errors"
	"io"
	"math"
	"regexp"
)

// Options select the files and what is shown.
type Options struct {
	Files    []string       // paths; - is Stdin
	Stdin    io.Reader      // read to its end if Files names it
	Match    *regexp.Regexp // of a metric's name; nil for all
	From, To string         // times or durations, see ErrTimeRange; empty for no limit
	Rate     bool           // growth per second instead of values
	AnyTime  bool           // accept times that go backwards
	Names    Names
}

// Names has the conventions for metric names of the program that wrote the files.
type Names struct {
	RestSuffix string                 // of the metric that holds what a float32 cannot
	IsText     func(name string) bool // reports whether the name is all that a metric says
}

// ErrDamaged marks the error of a file with readable data before the damage.
var ErrDamaged = errors.New("damaged")

// ErrTimeRange marks a From or To that cannot be read.
var ErrTimeRange = errors.New("wrong time range")

// View is a part of some FTDC files, which follow each other in time.
type View struct {
	files    []file
	match    *regexp.Regexp
	from, to int64 // ns since the epoch, both inclusive
	rate     bool
	anyTime  bool
	names    Names
	overlap  bool // set by a scan: a file begins before the one before it ends
}

// New opens the files, sorts them by time and resolves the time range.
func New(o Options) (*View, error) {
	v := &View{match: o.Match, from: math.MinInt64, to: math.MaxInt64, rate: o.Rate, anyTime: o.AnyTime, names: o.Names}
	for _, name := range o.Files {
		f, err := openFile(name, o.Stdin)
		if err != nil {
			return nil, err
		}
		v.files = append(v.files, f)
	}
	v.sortFiles()
	return v, v.setRange(o.From, o.To)
}

// Overlap reports whether a file began before the end of the one before it, in any
// scan so far.
func (v *View) Overlap() bool { return v.overlap }
