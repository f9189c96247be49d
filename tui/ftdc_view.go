package tui

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/resource-tracker/rt/format/ftdc"
	"github.com/resource-tracker/rt/internal/errkind"
)

// FTDCOptions select the files and what is shown.
type FTDCOptions struct {
	Files    []string       // paths; - is Stdin
	Stdin    io.Reader      // read to its end if Files names it
	Match    *regexp.Regexp // of a metric's name; nil for all
	From, To string         // times or durations, see ErrTimeRange; empty for no limit
	Rate     bool           // growth per second instead of values
	AnyTime  bool           // accept times that go backwards
}

// ErrDamaged marks the error of a file with readable data before the damage.
var ErrDamaged = errors.New("damaged")

// ErrTimeRange marks a From or To that cannot be read.
var ErrTimeRange = errors.New("wrong time range")

// FTDCView is a part of some FTDC files, which follow each other in time.
type FTDCView struct {
	files    []file
	match    *regexp.Regexp
	from, to int64 // ns since the epoch, both inclusive
	rate     bool
	anyTime  bool
	overlap  bool // set by a scan: a file begins before the one before it ends
}

// OpenFTDC opens the files, sorts them by time and resolves the time range.
func OpenFTDC(o FTDCOptions) (*FTDCView, error) {
	v := &FTDCView{match: o.Match, from: math.MinInt64, to: math.MaxInt64, rate: o.Rate, anyTime: o.AnyTime}
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
func (v *FTDCView) Overlap() bool { return v.overlap }

func (v *FTDCView) setRange(from, to string) error {
	var whole *FTDCSummary
	for _, b := range []struct {
		flag, text string
		at         *int64
	}{{"--from", from, &v.from}, {"--to", to, &v.to}} {
		if b.text == "" {
			continue
		}
		if t, err := time.Parse(time.RFC3339Nano, b.text); err == nil {
			*b.at = t.UnixNano()
			continue
		}
		if whole == nil {
			var err error
			all := FTDCView{files: v.files, match: regexp.MustCompile(`^\z.`), from: math.MinInt64, to: math.MaxInt64, anyTime: v.anyTime}
			whole, err = all.Summarize()
			if err != nil && !errors.Is(err, ErrDamaged) {
				return err
			}
		}
		at, ok := ParseMoment(b.text, time.Unix(0, whole.first), time.Unix(0, whole.last))
		if !ok {
			return errkind.With(ErrTimeRange, fmt.Errorf("%s %q: it is a time such as 2026-03-01T12:00:00Z or 12:00:30, or a duration such as 10m after the first reading or -10m before the last", b.flag, b.text))
		}
		*b.at = at.UnixNano()
	}
	return nil
}

// sortFiles sorts the files by the time of their first readings. A file that cannot be
// read keeps its place.
func (v *FTDCView) sortFiles() {
	if len(v.files) < 2 {
		return
	}
	for i := range v.files {
		v.files[i].first = math.MinInt64
		if i > 0 {
			v.files[i].first = v.files[i-1].first
		}
		r, err := v.files[i].open()
		if err != nil {
			continue // scan reports it
		}
		if at, err := ftdc.NewDecoder(r).Next(); err == nil {
			v.files[i].first = at
		}
		_ = r.Close() // it was read only
	}
	slices.SortStableFunc(v.files, func(a, b file) int { return cmp.Compare(a.first, b.first) })
}
