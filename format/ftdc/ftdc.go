package ftdc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// interval is the interval between two datums of an FTDC.
const interval = time.Second

// Statser is a part of a program with figures.
type Statser interface {
	// Stats returns a struct with exported fields that are numbers, bools, or structs of
	// these. It should have the same fields each time: every change costs a schema in the
	// file. Nil pointers and NaNs are left out: a figure that was not read is not recorded.
	Stats() any
}

// FTDC records the figures of Statsers, for debugging in production. They are in the order of Add,
// and every name starts with the name of the Statser.
type FTDC struct {
	logger *slog.Logger
	write  func(*FlatDatum) error
	finish func() error

	mu       sync.Mutex
	statsers []namedStatser

	cancel  context.CancelFunc
	done    chan struct{}
	datum   FlatDatum // reused
	failing bool
}

type namedStatser struct {
	name    string
	statser Statser
}

// New returns an FTDC that writes files of at most about 1 MiB into ftdcDirectory and
// keeps the newest 10 there.
func New(ftdcDirectory string, logger *slog.Logger) *FTDC {
	l := NewLog(ftdcDirectory, "rt", LogOptions{})
	return &FTDC{logger: logger, write: l.Write, finish: l.Close}
}

// NewWithWriter returns an FTDC that writes one file to w. It does not close w. If the clock is
// set meanwhile, a Decoder reads past that place with AnyTime only.
func NewWithWriter(w io.Writer, logger *slog.Logger) *FTDC {
	enc := NewEncoder(w)
	write := func(d *FlatDatum) error {
		err := enc.EncodeDatum(d)
		if errors.Is(err, ErrTime) {
			enc = NewEncoder(w)
			err = enc.EncodeDatum(d)
		}
		return err
	}
	return &FTDC{logger: logger, write: write, finish: func() error { return nil }}
}

// Add records the figures of s from the next second on. It refuses a name that is in use with a
// warning.
func (f *FTDC) Add(name string, s Statser) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.ContainsFunc(f.statsers, func(n namedStatser) bool { return n.name == name }) {
		f.logger.Warn("ftdc: a statser of that name is there already; this one is not recorded", "name", name)
		return
	}
	f.statsers = append(f.statsers, namedStatser{name, s})
}

// Remove stops recording the Statser of that name.
func (f *FTDC) Remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.statsers = slices.DeleteFunc(f.statsers, func(n namedStatser) bool { return n.name == name })
}

// Start starts recording, once a second, in the background.
func (f *FTDC) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel, f.done = cancel, make(chan struct{})
	go f.loop(ctx)
}

// StopAndJoin stops recording, and returns when the last datum is written or when ctx ends.
func (f *FTDC) StopAndJoin(ctx context.Context) {
	f.cancel()
	select {
	case <-f.done:
	case <-ctx.Done():
		f.logger.Warn("ftdc: recording has not stopped in time", "err", ctx.Err())
	}
}

func (f *FTDC) loop(ctx context.Context) {
	defer close(f.done)
	defer func() {
		if p := recover(); p != nil { // probably from a Statser
			f.logger.Error("ftdc: recording has ended by a panic", "panic", p, "stack", string(debug.Stack()))
		}
		if err := f.finish(); err != nil {
			f.logger.Warn("ftdc: the record is not closed", "err", err)
		}
	}()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			f.record(now)
		}
	}
}

// record reads every Statser and writes a datum. A write error is logged once; the next
// datum is another attempt.
func (f *FTDC) record(now time.Time) {
	f.datum.Time, f.datum.Readings = now.UnixNano(), f.datum.Readings[:0]
	f.mu.Lock()
	statsers := slices.Clone(f.statsers)
	f.mu.Unlock()
	for _, s := range statsers {
		f.datum.Readings = flatten(f.datum.Readings, s.name, reflect.ValueOf(s.statser.Stats()))
	}
	if len(f.datum.Readings) == 0 {
		return
	}
	err := f.write(&f.datum)
	if err != nil && !f.failing {
		f.logger.Warn("ftdc: not recorded", "err", err)
	}
	f.failing = err != nil
}

// flatten appends the numbers of v under name: a number, the exported fields of a struct in order, or a map's entries
// by name. A bool is 0 or 1. A nil pointer or interface has none; neither has a value of another kind.
func flatten(dst []Reading, name string, v reflect.Value) []Reading {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch {
	case !v.IsValid():
	case v.CanUint():
		dst = append(dst, Reading{name, float32(v.Uint())})
	case v.CanInt():
		dst = append(dst, Reading{name, float32(v.Int())})
	case v.CanFloat():
		dst = append(dst, Reading{name, float32(v.Float())})
	case v.Kind() == reflect.Bool:
		r := Reading{MetricName: name}
		if v.Bool() {
			r.Value = 1
		}
		dst = append(dst, r)
	case v.Kind() == reflect.Struct:
		for field, value := range v.Fields() {
			if field.IsExported() {
				dst = flatten(dst, name+"."+field.Name, value)
			}
		}
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		begin := len(dst)
		for key, value := range v.Seq2() {
			dst = flatten(dst, name+"."+key.String(), value)
		}
		slices.SortStableFunc(dst[begin:], func(a, b Reading) int { return cmp.Compare(a.MetricName, b.MetricName) })
	}
	return dst
}
